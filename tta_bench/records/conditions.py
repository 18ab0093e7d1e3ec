"""When two results may be compared: the only definition, shared by tables, differences, costs, figures and frames.

`Conditions` is what a cell ran under, apart from its method. Which records must agree on what:

| part | shared by |
|---|---|
| `table` | all records of a table |
| `source` | all records whose tasks start from the same source model |
| `images` | all records of one task |
| `stream` | records that are compared image by image |
| `mode` | nobody: another precision or a compiled model is another row |

`RULES` turns these parts into sentences. `TimeConditions` is what times must share in addition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tta_bench.records.live import WAITS, Live

if TYPE_CHECKING:
    from tta_bench.records.cell import Cell
    from tta_bench.records.spec import CellSpec


class StreamKey(NamedTuple):
    """One column of a table for one seed."""

    suite: str
    name: str
    seed: int


@dataclass(frozen=True)
class Conditions:
    """What a cell ran under, apart from its method."""

    suite: str
    name: str  # of the stream: its task, or the scenario if it covers several tasks
    seed: int
    scenario: str  # with its settings
    batch_size: int
    device: str
    limit: int | None  # images per task; None if nothing was cut off
    model: str
    weights: str
    images: str  # everything that describes them: version, code, digest, the suite's `data`
    order: str  # digest of the image ids in stream order
    mode: tuple[tuple[str, Any], ...]  # precision, compilation and the like, where they are not the plain ones
    stream_speed: str = WAITS  # with its clock, and who answers while a method is busy
    speed_options: str = field(default="", compare=False)  # the speed as `tta-bench run` takes it
    scenario_options: str = field(default="", compare=False)  # the scenario as `tta-bench run` takes it

    @classmethod
    def of(cls, cell: Cell) -> Conditions:
        spec, found = cell.spec, cell.found
        description, live = json.dumps(cell.data, sort_keys=True), spec.live or Live()
        return cls(
            suite=spec.suite,
            name=spec.name,
            seed=spec.seed,
            scenario=scenario_label(spec),
            batch_size=spec.batch_size,
            device=found.device,
            limit=spec.limit,
            model=spec.model,
            weights=found.weights,
            images=f"version {spec.suite_version}, {found.data_code}, {found.images}, {description}",
            order=found.stream,
            mode=tuple(spec.mode.items()),
            stream_speed=live.label,
            speed_options=live.options,
            scenario_options=" ".join([f"--scenario {spec.scenario}", *_settings(spec, "--{} {}")]),
        )

    @property
    def table(self) -> tuple[str, int, str, str]:
        """What all records of a table share. `RULES` check the limit: short tasks are complete under any limit."""
        return self.scenario, self.batch_size, self.device, self.stream_speed

    @property
    def source(self) -> tuple[str, str]:
        return self.model, self.weights

    @property
    def domain(self) -> str:
        """Tasks of one domain share a source model: the source domain of a transfer; empty for all other tasks."""
        start, to, _ = self.name.partition("-to-")
        return start if to else ""

    @property
    def key(self) -> StreamKey:
        return StreamKey(self.suite, self.name, self.seed)

    @property
    def stream(self) -> tuple[StreamKey, str]:
        """Equal for records that saw the same images in the same order."""
        return self.key, self.order

    @property
    def limit_option(self) -> str:
        return "without --limit" if self.limit is None else f"with --limit {self.limit}"


def scenario_label(spec: CellSpec) -> str:
    """The scenario with its settings, as in `label-shift, imbalance 1000`."""
    return ", ".join([spec.scenario, *_settings(spec, "{} {}")])


def _settings(spec: CellSpec, style: str) -> list[str]:
    return [
        style.format(key, f"{value:.10g}" if isinstance(value, float) else value)
        for key, value in sorted(spec.scenario_settings.items())
    ]


class Rule(NamedTuple):
    """A property that comparable records share, and how to run a cell again so that it agrees."""

    noun: str  # "These records use different <noun>"
    scope: Callable[[Conditions], Hashable]  # records of one scope must agree
    value: Callable[[Conditions], str | None]  # None agrees with everything
    remedy: str  # how to run a cell again with this value; filled in from the conditions
    where: str = ""  # the key of `--where` that separates them, if there is one


def _table(_: Conditions) -> Hashable:
    return None


RULES = (
    Rule("scenarios", _table, lambda c: c.scenario, "with {0.scenario_options}", "scenario"),
    Rule("limits", _table, lambda c: None if c.limit is None else str(c.limit), "{0.limit_option}", "limit"),
    Rule("limits", lambda c: c.key, lambda c: str(c.limit).lower(), "{0.limit_option}", "limit"),
    Rule("batch sizes", _table, lambda c: str(c.batch_size), "with --batch-size {0.batch_size}", "batch_size"),
    Rule("stream speeds", _table, lambda c: c.stream_speed, "{0.speed_options}", "stream_speed"),
    Rule("devices", _table, lambda c: c.device, "with --device {0.device}", "device"),
    Rule(
        "source weights", lambda c: c.domain, lambda c: f"{c.model} {c.weights[:12]}", "with --model {0.model}", "model"
    ),
    Rule(
        "images or image code", lambda c: (c.suite, c.name), lambda c: c.images, "with this version and the same images"
    ),
)


@dataclass(frozen=True, order=True)
class TimeConditions:
    """What times must share to be compared, in addition to `Conditions`."""

    device_name: str
    threads: int
    torch: str
    spin_count: str  # GOMP_SPINCOUNT: how long idle threads wait before they sleep; one thread has no idle ones
    shared: bool  # whether other jobs used the device at the same time

    @classmethod
    def of(cls, environment: Mapping[str, Any]) -> TimeConditions:
        threads = int(environment.get("threads") or 0)
        return cls(
            device_name=str(environment.get("device_name")),
            threads=threads,
            torch=str(environment.get("packages", {}).get("torch", "unknown")),
            spin_count=str(environment.get("GOMP_SPINCOUNT") or "") if threads != 1 else "",
            shared=bool(environment.get("shared")),
        )
