"""`tta-bench profile`: where a method's step spends its time."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import options
from tta_bench.cli.options import RUNS
from tta_bench.cli.timing import add_workload, spec
from tta_bench.files import refuse_unwritable

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.timing.profile import Profile

OPERATORS = 10


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "profile",
        help="show where a method's time goes",
        description="Profile a method's adapt steps: forward, backward, optimiser, host sync and loading. Prints a "
        "table and writes a trace for chrome://tracing or ui.perfetto.dev.",
    )
    verb.add_argument("--method", required=True, metavar="NAME")
    verb.add_argument("--trace", type=Path, metavar="FILE", help=f"trace file (default: {RUNS}/profile-<method>.json)")
    add_workload(verb, methods=False)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # torch's profiler writes to stderr; read when torch is imported
    args.methods = (args.method,)
    asked = spec(args)
    trace = args.trace or RUNS / f"profile-{args.method}.json"
    refuse_unwritable(trace)
    from tta_bench.cli.progress import status_line
    from tta_bench.timing.profile import take
    from tta_bench.timing.workload import prepare

    console = options.console()
    with status_line(console) as show:
        prepared = prepare(asked, args.data_root)
        show(f"profiling {args.method}")
        label = list(prepared.workload.methods)[-1]
        found = take(prepared, label, trace)
    _show(label, found, console)
    options.say_written([trace], console)
    return 0


def _show(label: str, found: Profile, console: Console) -> None:
    from rich import box
    from rich.table import Table

    total = sum(found.parts.values())
    table = Table(box=box.SIMPLE_HEAD, title=f"{label}: where a step's time goes", title_justify="left")
    table.add_column("part")
    for column in ("ms/batch", "share", *(["GPU ms/batch"] if found.device_parts else [])):
        table.add_column(column, justify="right")
    for part, ms in found.parts.items():
        device = [f"{found.device_parts[part]:.2f}"] if found.device_parts else []
        table.add_row(part, f"{ms:.2f}", f"{ms / total:.0%}", *device)
    console.print(table)
    table = Table(box=box.SIMPLE_HEAD, title="costliest operators", title_justify="left")
    table.add_column("operator")
    table.add_column("part")
    table.add_column("ms/batch", justify="right")
    for part, name, ms in found.operators[:OPERATORS]:
        table.add_row(name.removeprefix("autograd::engine::evaluate_function: "), part, f"{ms:.2f}")
    console.print(table)
    console.print(
        f"Without the profiler a step takes {found.step:.1f} ms, {found.times_source:.2f} times Source's; "
        f"profiling adds overhead to the times above.",
        style="dim",
    )
