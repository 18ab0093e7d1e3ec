"""`tta-bench run`: stream each task once per method, then show the tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.records.cell import Cell
    from tta_bench.records.record import Record
    from tta_bench.records.store import Store
    from tta_bench.run.choices import Choices
    from tta_bench.suites.suite import Suite

RUNS = Path("results/runs")


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "run",
        help="compare methods on a suite",
        description="Compare methods on a suite. What is finished stays: the same command again goes on where it was.",
    )
    options.add_choices(verb)
    out = verb.add_argument_group("where results go")
    out.add_argument("--out", type=Path, metavar="DIR", help=f"the run's folder (default: {RUNS}/<suite>)")
    out.add_argument("--fresh", action="store_true", help="start over; an old folder is moved aside, not deleted")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.records.store import refuse_unfit

    chosen, choices = options.chosen(args)
    folder = args.out or RUNS / chosen.name
    if not args.fresh:
        refuse_unfit(folder, chosen.name)  # before the time to load a model is spent
    return _run(args, chosen, choices, folder)


def _run(args: argparse.Namespace, chosen: Suite, choices: Choices, folder: Path) -> int:
    from tta_bench.cli.progress import watch
    from tta_bench.records.store import Store
    from tta_bench.run.execute import execute
    from tta_bench.run.plan import Plan
    from tta_bench.run.tripwire import suspicions

    console = options.console()
    plan = Plan(chosen, choices)
    old = Store(folder).set_aside() if args.fresh else None
    if old:
        console.print(f"The old folder is now {old}", soft_wrap=True)
    store = Store.create(folder, chosen.name)
    store.note_command(args.command, chosen.tasks, [contender.label for contender in plan.contenders])
    console.print(f"{chosen.name}: {chosen.about}", style="dim")

    with watch(len(plan), console) as watcher:
        plan.on_cache = watcher.on_cache  # not first by `execute`: the tripwire reads images, too
        try:
            if plan.suite.paper:
                warnings = suspicions(plan)
                store.note_warnings(warnings)
                for warning in filter(None, warnings.values()):
                    console.print(f"WARNING {warning}", style="bold red")
            records = execute(plan, store, watcher)
        except KeyboardInterrupt:
            watcher.stop()
            console.print(
                f"Interrupted: {watcher.finished} of {len(plan)} cells are kept in {folder}. "
                f"Run the same command again to go on.",
                soft_wrap=True,
            )
            return 130
    watcher.tell_reused("use --fresh to run them again")
    console.print()
    _report(records, store, console)
    failed = [record for record in records if record.status != "done"]
    if failed:
        console.print(f"{len(failed)} of {len(records)} cells failed; the same command again tries only these.")
    return 1 if failed else 0


def _report(records: Sequence[Record], store: Store, console: Console) -> None:
    """The tables and files that `report` would make of this command's records."""
    from tta_bench.report.rows import compare
    from tta_bench.report.runs import Runs
    from tta_bench.report.write import report_runs

    runs = Runs([store.folder])
    there = {record.cell.key: record for record in runs.records}
    own = [replace(there[record.cell.key], label=record.label) for record in records]
    files = report_runs([compare([*_source_beside(own, runs.records), *own])], runs, store.report, console)
    options.tell_written(files, console)


def _source_beside(own: Sequence[Record], there: Sequence[Record]) -> list[Record]:
    """Source's records of an earlier command on the very same streams, so that costs are told in multiples of it."""
    if any(record.cell.method == "source" for record in own):
        return []
    streams = {_same(record.cell) for record in own}
    found = [r for r in there if r.cell.method == "source" and r.status == "done" and _same(r.cell) in streams]
    newest = {_same(record.cell): record for record in sorted(found, key=lambda record: record.finished_at)}
    return [record for record in found if record is newest[_same(record.cell)]]


def _same(cell: Cell) -> tuple[object, ...]:
    return cell.conditions, cell.harness
