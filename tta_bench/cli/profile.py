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
    from tta_bench.cli.tables import numbers

    total = sum(found.parts.values())
    head = ["part", "ms/batch", "share"]
    rows = [[part, f"{ms:.2f}", f"{ms / total:.0%}"] for part, ms in found.parts.items()]
    if found.device_parts:
        head.append("GPU ms/batch")
        rows = [[*row, f"{found.device_parts[row[0]]:.2f}"] for row in rows]
    console.print(numbers(head, rows, texts=1, title=f"{label}: where a step's time goes"))
    operators = [
        (name.removeprefix("autograd::engine::evaluate_function: "), part, f"{ms:.2f}")
        for part, name, ms in found.operators[:OPERATORS]
    ]
    console.print(numbers(("operator", "part", "ms/batch"), operators, texts=2, title="costliest operators"))
    console.print(
        f"Without the profiler a step takes {found.step:.1f} ms, {found.times_source:.2f} times Source's; "
        f"profiling adds overhead to the times above.",
        style="dim",
    )
