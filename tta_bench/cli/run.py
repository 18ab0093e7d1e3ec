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
    from tta_bench.cli.progress import watch
    from tta_bench.run.launch import launch

    chosen, choices = options.chosen(args)
    folder = args.out or RUNS / chosen.name
    ready = launch(chosen, choices, options.site(args), folder, command=args.command, fresh=args.fresh)
    console = options.console()
    if ready.set_aside:
        console.print(f"The old folder is now {ready.set_aside}", soft_wrap=True)
    console.print(f"{chosen.name}: {chosen.about}", style="dim")
    with watch(len(ready.requests), console) as watcher:
        try:
            records = ready.run(watcher)
        except KeyboardInterrupt:
            watcher.stop()
            console.print(
                f"Interrupted: {watcher.finished} of {len(ready.requests)} cells are kept in {folder}. "
                f"Run the same command again to go on.",
                soft_wrap=True,
            )
            return 130
    watcher.tell_reused("use --fresh to run them again")
    console.print()
    _report(records, ready.store, console)
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
