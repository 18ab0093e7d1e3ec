"""`tta-bench run`: stream each task once per method, then show the tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import engines, options
from tta_bench.cli.options import RUNS
from tta_bench.errors import Cancelled, RunStopped, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.engines.fleet import Fleet
    from tta_bench.records.record import Record
    from tta_bench.runs.launch import Launch
    from tta_bench.suites.suite import Suite


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "run",
        help="compare methods on a suite",
        description="Compare methods on a suite. Finished cells are saved: run the same command again to resume. "
        "Several processes may share one folder.",
    )
    options.add_choices(verb)
    verb.add_argument(
        "--orders",
        type=options.positive,
        metavar="K",
        help="run K orders of each stream (seeds 0 to K - 1) and show the worst, the median and the best",
    )
    out = verb.add_argument_group("where results go")
    out.add_argument("--out", type=Path, metavar="DIR", help=f"run folder (default: {RUNS}/<suite>)")
    out.add_argument("--fresh", action="store_true", help="start over; the old folder is renamed, not deleted")
    engines.add(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.runs.launch import launch

    if args.orders and args.seeds:
        raise UserError("--orders chooses the seeds: omit --seeds, or use --seeds without --orders")
    args.seeds = tuple(range(args.orders)) if args.orders else args.seeds
    chosen, choices = options.chosen(args)
    folder = args.out or RUNS / chosen.name
    with engines.fleet(args, folder) as fleet:
        check = fleet.check if fleet else None
        site = options.site(args)
        ready = launch(chosen, choices, site, folder, command=args.command, fresh=args.fresh, check=check)
        console = options.console()
        if ready.set_aside:
            console.print(f"Renamed the old folder to {ready.set_aside}", soft_wrap=True)
        for file in ready.damaged:
            text = f"WARNING {file.name} is damaged: renamed it to {file}, running its cell again"
            console.print(text, soft_wrap=True)
        console.print(f"{chosen.name}: {chosen.about}", style="dim")
        if fleet and args.detach:
            return _detach(fleet, ready, folder, console)
        return _run(fleet, ready, chosen, console, orders=bool(args.orders))


def _run(fleet: Fleet | None, ready: Launch, chosen: Suite, console: Console, *, orders: bool) -> int:
    from tta_bench.cli.progress import watch

    folder = ready.store.folder
    with watch(len(ready.requests), console) as watcher:
        try:
            records, lost = fleet.run(ready, watcher) if fleet else (ready.run(watcher), [])
        except KeyboardInterrupt:
            watcher.stop()
            console.print(
                f"Interrupted: {watcher.finished} of {len(ready.requests)} cells are saved in {folder}. "
                f"Run the same command again to resume.",
                soft_wrap=True,
            )
            return 130
        except RunStopped as error:
            watcher.stop()
            saved = f"{watcher.finished} of {len(ready.requests)} cells are saved in {folder}"
            if isinstance(error, Cancelled):
                console.print(f"Cancelled: {saved}. Run the same command again to go on.", soft_wrap=True)
                return 130
            raise UserError(f"{error}; {saved}: run the same command again to resume") from error
    watcher.say_reused("use --fresh to run them again")
    for cell in lost:
        console.print(f"{cell}", style="bold red", soft_wrap=True)
    console.print()
    if records:
        _report(ready, records, chosen, console, orders=orders)
    failed = len(lost) + sum(record.status != "done" for record in records)
    if failed:
        console.print(f"{failed} of {len(ready.requests)} cells failed. Run the same command again to retry them.")
    return 1 if failed else 0


def _report(ready: Launch, records: list[Record], chosen: Suite, console: Console, *, orders: bool) -> None:
    """Show and write the tables; of a sweep, the averages at each value."""
    from tta_bench.api import Results
    from tta_bench.report.summary import summary
    from tta_bench.report.sweep import varying
    from tta_bench.report.write import DEFAULT, report_runs, write_sweep

    axis = next((axis for axis in chosen.sweep or {} if axis in varying(records)), None)
    if axis:
        options.say_written(write_sweep(records, axis, ready.store.report, console), console)
        return
    results = Results(ready.store, records)
    formats = (*DEFAULT, "html")
    files = report_runs([results.comparison], results.runs, ready.store.report, console, formats, orders=orders)
    for sentence in summary(results.comparison, results.runs):
        console.print(sentence)
    options.say_written(files, console)


def _detach(fleet: Fleet, ready: Launch, folder: Path, console: Console) -> int:
    job = fleet.detach(ready)
    if job is None:
        console.print(f"All {len(ready.requests)} cells are finished: `tta-bench report {folder}` shows them.")
        return 0
    last = job.handle["workers"] - 1
    how = (
        f"Started job {job.name}."
        if fleet.engine.starts_workers
        else f"Wrote job {job.name}: start `tta-bench work {folder} {job.name} INDEX` for each INDEX from 0 to {last}."
    )
    console.print(
        f"{how} `tta-bench status {folder}` shows its progress; the same command without --detach follows it.",
        soft_wrap=True,
    )
    return 0
