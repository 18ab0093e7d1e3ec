"""Options that several verbs share, and the types of their values."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.cli import clock
from tta_bench.records.live import BACKWARD, BUSY
from tta_bench.runs.site import data_root
from tta_bench.streams.scenarios import SCENARIOS, Scenario, scenario_of
from tta_bench.suites import suite

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.runs.choices import Choices
    from tta_bench.runs.site import Site
    from tta_bench.suites.suite import Suite


RUNS = Path("results/runs")
LONGEST = 365 * 86400  # seconds that somebody may want to wait


def add_choices(verb: argparse.ArgumentParser, *, suite: str = suite.DEFAULT, methods: bool = True) -> None:
    """What to compare on what: the options of `run` and `check`."""
    what = verb.add_argument_group("what to compare")
    if methods:
        what.add_argument("--methods", type=names, default=(), metavar="A,B,…", help=_METHODS)
    what.add_argument("--suite", default=suite, metavar="NAME", help="suite name or YAML file (default: %(default)s)")
    what.add_argument("--tasks", type=names, default=(), metavar="A,B,…", help=_TASKS)
    what.add_argument("--model", metavar="NAME", help=_MODEL)
    if methods:
        what.add_argument("--settings", type=Path, metavar="FILE", help=_SETTINGS)
    what.add_argument("--set", action="append", default=[], metavar="M.KEY=VALUE", help=_SET)
    how = verb.add_argument_group("how to run")
    how.add_argument("--seeds", type=seeds, default=(), metavar="0,1,2", help=_SEEDS)
    how.add_argument("--scenario", choices=tuple(SCENARIOS), default="normal", help=_SCENARIO)
    for cls in SCENARIOS.values():
        for f in fields(cls):
            text = f"{cls.name}: {f.metadata['help']} (default: {_shown(f.default)})"
            how.add_argument(f"--{f.name}", help=text.replace("%", "%%"), **_reading(f))
    how.add_argument("--limit", type=positive, metavar="N", help=_LIMIT)
    how.add_argument("--batch-size", type=positive, metavar="N", help="images per batch (default: the suite's)")
    how.add_argument("--stream-speed", type=speed, metavar="SPEED", help=_STREAM_SPEED)
    how.add_argument("--clock", metavar="counts|FILE", help=_CLOCK)
    how.add_argument("--busy", choices=BUSY, help=_BUSY)
    how.add_argument("--backward-cost", type=speed, metavar="NUMBER", help=_BACKWARD)
    how.add_argument("--device", default="auto", help=_DEVICE)
    how.add_argument("--amp", choices=("bf16",), help="adapt in mixed precision; changes results slightly")
    how.add_argument("--compile", action="store_true", help="compile the model: slower start, faster batches")
    how.add_argument("--workers", type=whole, metavar="N", help=_WORKERS)
    how.add_argument("--cache", type=Path, metavar="DIR", help=_CACHE)
    add_data_root(how)
    how.add_argument("--time-limit", type=seconds, metavar="2h", help=_TIME_LIMIT)
    how.add_argument("--in-process", action="store_true", help=_IN_PROCESS)


def _reading(setting: Field[Any]) -> dict[str, Any]:
    """How the command line takes a scenario's setting: one of its choices, or a number like its default."""
    if "choices" in setting.metadata:
        return {"choices": setting.metadata["choices"]}
    return (
        {"type": positive, "metavar": "N"} if isinstance(setting.default, int) else {"type": ratio, "metavar": "NUMBER"}
    )


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def add_data_root(parser: argparse._ActionsContainer) -> None:
    """Where the datasets are: read when the command line is."""
    default = data_root()
    parser.add_argument("--data-root", type=Path, metavar="DIR", default=default, help=_DATA_ROOT)


_TIME_LIMIT = (
    "longest time for one cell, as 90s, 30m or 2h "
    "(default: 50 times Source's, at least 10 minutes; more for expensive methods)"
)
_IN_PROCESS = "adapt in this process instead of a worker: for debuggers, without isolation (or $TTA_BENCH_IN_PROCESS)"
_DATA_ROOT = "folder that holds the datasets (default: %(default)s; $TTA_BENCH_DATA changes it)"
_STREAM_SPEED = (
    "live stream: so many batches arrive while Source looks at one, and a busy method misses some (default: 0, the "
    "stream waits)"
)
_CLOCK = (
    "how long a batch takes: counts (of passes; the same on every machine), or a file of `timing record` (default: "
    "counts)"
)
_BUSY = (
    "who answers missed batches: the weights from before the current adaptation (stale), Source, or the published "
    "code's rule and weights (released) (default: stale)"
)
_BACKWARD = f"cost of a backward pass in forward passes, for --clock counts (default: {BACKWARD:g})"
_METHODS = "methods, in row order (default: the suite's)"
_TASKS = "run only these tasks of the suite (default: all)"
_MODEL = (
    "a name from `list models`, a timm tag, TAG=FILE (a timm model with weights from a local .safetensors, .pth, .bin "
    "or AugReg .npz file), hf_hub:OWNER/NAME (a timm model of the Hugging Face hub), or a .safetensors file written by "
    "train-source (default: the suite's)"
)
_SETTINGS = "settings that `tta-bench tune` chose and wrote; reports say on which data"
_SET = "a method setting, as in METHOD.lr=0.01; repeatable"
_SEEDS = "seeds of the stream order, one run each (default: the suite's)"
_SCENARIO = "how tasks become streams; " + "; ".join(f"{name}: {cls.about}" for name, cls in SCENARIOS.items())
_LIMIT = "use only N images per task; results are marked as not reportable"
_WORKERS = "image-loading processes (default: one per core, if images are on disk)"
_CACHE = "cache decoded images here, so that later methods load faster"
_DEVICE = "auto, cpu, cuda, cuda:N or mps (default: auto, a GPU if there is one)"


def choices(args: argparse.Namespace, suite: Suite) -> Choices:
    """The options of `add_choices` as the harness takes them."""
    from tta_bench import settings
    from tta_bench.runs.choices import Choices

    found = Choices(
        methods=args.methods,
        model=args.model,
        seeds=args.seeds,
        tasks=args.tasks,
        scenario=scenario(args),
        limit=args.limit,
        batch_size=args.batch_size,
        amp=args.amp,
        compile=args.compile,
        overrides=settings.parse(args.set),
    )
    if getattr(args, "settings", None) is None:
        return found
    from tta_bench.runs.tuned import with_tuned

    return with_tuned(found, suite, args.settings)


def scenario(args: argparse.Namespace) -> Scenario:
    """The scenario that was asked for, with its settings; a setting of another scenario is a mistake."""
    from tta_bench.errors import UserError

    given = {}
    for name, cls in SCENARIOS.items():
        for f in fields(cls):
            value = getattr(args, f.name)
            if value is not None and name != args.scenario:
                raise UserError(f"--{f.name} requires --scenario {name} (got {args.scenario})")
            if value is not None:
                given[f.name] = value
    return scenario_of(args.scenario, given)


def site(args: argparse.Namespace) -> Site:
    """Where to run, as the harness takes it."""
    from tta_bench.runs.site import Site

    return Site(
        data_root=args.data_root,
        cache=args.cache,
        workers=args.workers,
        device=args.device,
        time_limit=args.time_limit,
        in_process=args.in_process or Site().in_process,
    )


def chosen(args: argparse.Namespace) -> tuple[Suite, Choices]:
    """Suite and choices of a command line, their names checked: a typo is reported before torch is imported."""
    from tta_bench.runs.choices import refuse_misnamed

    found = suite.load(args.suite)
    asked = choices(args, found)
    refuse_misnamed(found, asked)
    return found, clock.timed(found, asked, args)


def console() -> Console:
    """The screen; a file or a pipe gets lines wide enough for whole tables."""
    screen = _literal()
    return screen if screen.is_terminal else _literal(width=200)


def narrow_console() -> Console:
    """The screen for tables of words, which wrap; a file or a pipe gets $COLUMNS, or lines that a page can hold."""
    screen = _literal()
    given = os.environ.get("COLUMNS", "")
    return screen if screen.is_terminal or given.isdecimal() else _literal(width=120)


def _literal(width: int | None = None) -> Console:
    """Shows text as it is: a path may have [brackets] or :colons: in it, which rich would read as markup and emoji."""
    from rich.console import Console

    class Literal(Console):
        def print(self, *objects: Any, **kwargs: Any) -> None:
            super().print(*(_harmless(one) if isinstance(one, str) else one for one in objects), **kwargs)

        def on_broken_pipe(self) -> None:
            """Leave it to `main`: rich would exit with status 1."""
            raise BrokenPipeError

    return Literal(highlight=False, markup=False, emoji=False, width=width)


def _harmless(text: str) -> str:
    """The same lines without control characters, which a name in a stranger's folder may have."""
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """The runs that a command reads: not paths, because an address has two slashes."""
    about = "run folder, packed run, or the web address of one; several are merged"
    parser.add_argument("dirs", nargs="+", metavar="RUN", help=about)


def say_written(files: Iterable[Path], screen: Console) -> None:
    """Names files on one line, however long: a name that is broken into two cannot be copied."""
    screen.print(f"Written: {', '.join(map(str, files))}", soft_wrap=True)


def names(text: str) -> tuple[str, ...]:
    """Comma-separated names, each once."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise argparse.ArgumentTypeError("expected at least one name")
    for name in found:
        if found.count(name) > 1:
            raise argparse.ArgumentTypeError(f"'{name}' is listed twice")
    return found


def seed(text: str) -> int:
    """A whole number that torch takes as a seed."""
    if whole(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"expected a whole number below 2^63, got '{text}'")
    return int(text)


def seeds(text: str) -> tuple[int, ...]:
    """Comma-separated whole numbers, each once."""
    try:
        found = tuple(int(name) for name in names(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected whole numbers as in 0,1,2, got '{text}'") from error
    if min(found) < 0 or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected different numbers of at least 0, got '{text}'")
    return tuple(seed(str(number)) for number in found)


def ratio(text: str) -> float:
    """A number above 0."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got '{text}'")
    return found


def speed(text: str) -> float:
    """A number of at least 0."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got '{text}'")
    return found


def whole(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got '{text}'")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got '{text}'")
    return int(text)


def seconds(text: str) -> float:
    """`90`, `90s`, `2m` or `2h`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text)
    given = float(found[1]) * {"m": 60, "h": 3600}.get(found[2], 1) if found else 0.0
    if not 0 < given <= LONGEST:
        raise argparse.ArgumentTypeError(f"expected a time above 0 as in 90s, 2m or 2h, got '{text}'")
    return given
