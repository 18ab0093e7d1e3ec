"""Every option of `tta-bench run`, once: the command line is made from this list, `tta_bench.run` takes it as keywords.

Options that can change a result are fields of `Asked` (records/asked.py), those that say where cells run are fields of
`Site` (site.py); both get there by name. All others are here. Settings of scenarios are options, too; the scenarios'
classes declare them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tta_bench import settings as method_settings
from tta_bench.checked import readers as read
from tta_bench.checked.options import GROUPS, OUT, WHAT, WHERE, flag_of, option, part, read_all, read_one
from tta_bench.errors import UserError
from tta_bench.models import timm_args
from tta_bench.records.asked import Asked
from tta_bench.records.live import BACKWARD, BUSY, COUNTS, Busy
from tta_bench.runs.site import Site
from tta_bench.streams.scenarios import SCENARIOS, Normal, Scenario, scenario_of
from tta_bench.suites import suite as suites
from tta_bench.suites.suite import Suite

if TYPE_CHECKING:
    from tta_bench.method import Method

Methods = Sequence[str] | Mapping[str, "Mapping[str, Any] | type[Method]"]
RUNS = Path("results/runs")

_MODEL = (
    "a name from `list models`, a timm tag, TAG=FILE (a timm model with weights from a local .safetensors, .pth, .bin "
    "or AugReg .npz file), hf_hub:OWNER/NAME (a timm model of the Hugging Face hub), or a .safetensors file written by "
    "train-source (default: the suite's)"
)
_MODEL_ARGS = "--model TAG=FILE: arguments of timm's model that differ from the tag's, as in img_size=98"
_SETTINGS = "settings that `tta-bench tune` chose and wrote; reports say on which data"
_ORDERS = "run K orders of each stream (seeds 0 to K - 1) and show the worst, the median and the best"
_SCENARIO = (
    "how tasks become streams (default: the suite's, or normal); "
    + "; ".join(f"{name}: {cls.about}" for name, cls in SCENARIOS.items())
    + "; or a preset, or choices joined by +, as in continual+recurring:20+dirichlet:0.1: see `list scenarios`"
)
_REMEMBER = (
    "a probe of forgetting, as in 256 or 256,every=640: before the first task, after each and after each M images, "
    "the method predicts N clean images without adapting; requires one stream over all tasks, as --scenario continual"
)
_SPEED = "live stream: batches arriving per Source forward; a busy method misses some (default: 0, the stream waits)"
_CLOCK = (
    "how long a batch takes: counts (of passes; the same on every machine), or a file of `timing record` (default: "
    "counts)"
)
_BUSY = (
    "who answers missed batches: the weights from before the current adaptation (stale), Source, or the published "
    "code's rule and weights (released) (default: stale)"
)
_BACKWARD = f"cost of a backward pass in forward passes, for --clock counts (default: {BACKWARD:g})"
_ON = "local (default with --jobs or --gpus), slurm, ray or ray=ADDRESS; see docs/clusters.md"
_JOBS = "worker processes, each of which runs one cell at a time (local: they share the cores)"
_BESIDE = "published: also show a table with the published rows on the same streams; see `tta-bench results`"
_SLURM = 'slurm: options of sbatch, as in "partition=gpu,gres=gpu:1,time=4:00:00"'


def _suite(given: Any) -> str | Suite:
    return given if isinstance(given, Suite) else read.text(given)


def _scenario(given: Any) -> Scenario:
    return given if isinstance(given, Scenario) else scenario_of(read.text(given))


def _remember(given: Any) -> str:
    from tta_bench.streams.axes.domains import Remember

    return str(Remember.read(str(given))).partition(":")[2]


def _assignments(given: Any) -> dict[str, method_settings.Settings]:
    if isinstance(given, Mapping):
        return {label: dict(values) for label, values in given.items()}
    return method_settings.parse([given] if isinstance(given, str) else given)


@dataclass(frozen=True)
class RunOptions(Site, Asked):
    """What `run` can be asked. Text is read as the command line reads it; None is the default."""

    methods: Methods = option((), "methods, in row order (default: the suite's)", read.names, WHAT)
    suite: str | Suite = option(
        suites.DEFAULT, "suite name or YAML file (default: {default})", _suite, WHAT, metavar="NAME"
    )
    _: KW_ONLY
    tasks: Sequence[str] = option((), "run only these tasks of the suite (default: all)", read.names, WHAT)
    model: str | None = option(None, _MODEL, group=WHAT)
    model_args: str | None = option(None, _MODEL_ARGS, group=WHAT, metavar="K=V,…")
    settings: str | Path | None = option(None, _SETTINGS, read.path, WHAT, metavar="FILE")
    set: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = option(
        None,
        "a method setting, as in METHOD.lr=0.01; repeatable",
        _assignments,
        WHAT,
        metavar="M.KEY=VALUE",
        repeat=True,
    )
    seeds: Sequence[int] = option((), "seeds of the stream order, one run each (default: the suite's)", read.seeds)
    orders: int | None = option(None, _ORDERS, read.positive, metavar="K")
    scenario: str | Scenario | None = option(None, _SCENARIO, _scenario, metavar="NAME")
    remember: str | int | None = option(None, _REMEMBER, _remember, metavar="N[,every=M]")
    batch_size: int | None = option(None, "images per batch (default: the suite's)", read.positive)
    stream_speed: float | None = option(None, _SPEED, read.speed)
    clock: str | Path | None = option(None, _CLOCK, str, metavar="counts|FILE")
    busy: Busy | None = option(None, _BUSY, choices=BUSY)
    backward_cost: float | None = option(None, _BACKWARD, read.speed)
    out: str | Path | None = option(None, f"run folder (default: {RUNS}/<suite>)", read.path, OUT)
    beside: str | None = option(None, _BESIDE, group=OUT, choices=("published",))
    fresh: bool = option(False, "start over; the old folder is renamed, not deleted", group=OUT)
    on: str | None = option(None, _ON, group=WHERE)
    jobs: int | None = option(None, _JOBS, read.positive, WHERE)
    gpus: Sequence[int] = option((), "local: one worker per GPU", read.gpus, WHERE)
    slurm: str | Mapping[str, str] | None = option(None, _SLURM, read.sbatch, WHERE, metavar="K=V,…")
    gpus_per_cell: float | None = option(None, "ray: GPUs for each worker, as in 1 or 0.5", read.ratio, WHERE)
    retries: int = option(2, "times a cell is run again if its worker dies (default: {default})", read.whole, WHERE)
    detach: bool = option(False, "return when workers are started; see `tta-bench status`", group=WHERE)

    def __post_init__(self) -> None:
        read_all(self)
        orders = tuple(range(self.orders or 0))
        if orders and self.seeds not in ((), orders):
            raise UserError("--orders chooses the seeds: omit --seeds, or use --seeds without --orders")
        object.__setattr__(self, "seeds", orders or self.seeds)
        fixed = self.protocol.batch_size
        if fixed is not None and self.batch_size not in (None, fixed):
            raise UserError(
                f"--scenario {self.protocol.name} requires batches of {fixed}, got {self.batch_size}: omit --batch-size"
            )
        self._refuse_odd_clocks()
        self._choose_gpus()
        if self.model_args is not None:  # from here on a part of the model's name
            object.__setattr__(self, "model", timm_args.named(self.model, self.model_args))
            object.__setattr__(self, "model_args", None)

    def _choose_gpus(self) -> None:
        """With --gpus a cell runs on a GPU or not at all."""
        if self.gpus and self.device not in ("auto", "cuda"):
            raise UserError(f"--gpus chooses the device of each worker: omit --device (got {self.device})")
        if self.gpus:
            object.__setattr__(self, "device", "cuda")

    def _refuse_odd_clocks(self) -> None:
        for name in ("clock", "busy", "backward_cost"):
            if not self.stream_speed and getattr(self, name) is not None:
                raise UserError(f"{flag_of(name)} requires --stream-speed above 0")
        if self.clock not in (None, COUNTS) and self.backward_cost is not None:
            raise UserError("--backward-cost requires --clock counts: a timing record has measured costs")
        if self.stream_speed and self.busy in (None, "stale") and self.compile:
            raise UserError("--compile needs --busy source or released: copies for --busy stale would compile again")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> RunOptions:
        """The options among these names and values, and settings of the scenario; other names are not for `run`."""
        own = {name: value for name, value in given.items() if name in NAMES}
        chosen = {name: given[name] for name in scenario_settings() if given.get(name) is not None}
        if chosen:
            own["scenario"] = _with_settings(own.get("scenario") or "normal", chosen)
        return cls(**own)

    def to_json(self) -> dict[str, Any]:
        """The options that are not at their defaults, for `of`."""
        given = {f.name: (getattr(self, f.name), read_one(f, None)) for f in fields(self)}
        found = {name: _plain(value) for name, (value, default) in given.items() if value != default}
        return {**found, **({"scenario": self.protocol.name, **self.protocol.settings} if "scenario" in found else {})}

    @property
    def protocol(self) -> Scenario:
        """The scenario as the object that makes streams."""
        return cast(Scenario, self.scenario) if self.scenario else Normal()

    @property
    def overrides(self) -> dict[str, method_settings.Settings]:
        """Settings of methods, by the labels of their rows."""
        return cast("dict[str, method_settings.Settings]", self.set or {})

    @property
    def site(self) -> Site:
        return Site(**part(Site, self))


def _plain(value: Any) -> Any:
    """A value as JSON has it; a suite by its name."""
    if isinstance(value, Path | Suite):
        return value.name if isinstance(value, Suite) else str(value)
    return list(value) if isinstance(value, tuple) else value


def _rank(f: Field[Any]) -> tuple[int, bool]:
    return GROUPS.index(f.metadata["group"]), f.name not in RunOptions.__annotations__


NAMES = tuple(f.name for f in sorted(fields(RunOptions), key=_rank))  # of all options, in the order of `--help`


def scenario_settings() -> dict[str, tuple[Field[Any], list[str]]]:
    """The settings of scenarios by name, each with the scenarios that have it."""
    found: dict[str, tuple[Field[Any], list[str]]] = {}
    for cls in SCENARIOS.values():
        for f in fields(cls):
            found.setdefault(f.name, (f, []))[1].append(cls.name)
    return found


KNOWN = (*NAMES, *scenario_settings())  # what `RunOptions.of` takes


def _with_settings(scenario: str | Scenario, settings: Mapping[str, Any]) -> Scenario:
    """A scenario with other settings; a setting of another scenario is a mistake."""
    name, given = (scenario, dict[str, Any]()) if isinstance(scenario, str) else (scenario.name, scenario.settings)
    for key, value in settings.items():
        f, homes = scenario_settings()[key]
        if name not in homes:
            raise UserError(f"--{key} requires --scenario {' or '.join(homes)} (got {name})")
        given[key] = read_one(f, value)
    return scenario_of(name, given)


@contextmanager
def errors_name_keywords() -> Iterator[None]:
    """Where a mistake of a Python call is reported, say `time_limit` instead of `--time-limit`; commands stay."""
    try:
        yield
    except UserError as error:
        flags = {flag_of(name): name for name in (*RunOptions.__dataclass_fields__, *scenario_settings())}
        text = re.sub(r"`[^`]*`|--[a-z][a-z-]*", lambda found: flags.get(found[0], found[0]), str(error))
        error.args = (text,)
        raise
