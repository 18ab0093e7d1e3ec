"""`tta-bench run`: stream each task once per method, then show the tables."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tta_bench.cli import options
from tta_bench.errors import Cancelled, RunStopped, UserError
from tta_bench.runs.options import RunOptions

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.engines.start import Run
    from tta_bench.records.record import Record


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "run",
        help="compare methods on a suite",
        description="Compare methods on a suite. Finished cells are saved: run the same command again to resume. "
        "Several processes may share one folder.",
    )
    options.add(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    asked = RunOptions.of(vars(args))
    from tta_bench.engines.start import start

    if asked.beside:
        from tta_bench.published import results

        results.expect(asked.suite)
    with start(asked, args.command, forks=True) as started:
        console = options.console()
        _say_ready(started, console)
        if asked.detach:
            return _detach(started, console)
        found = _watch(started, console)
        if found is None:
            return 130
        records, failed = found
        console.print()
        if records:
            _report(started, records, console, asked)
        total = len(started.requests)
        if failed:
            console.print(f"{failed} of {total} cells failed. Run the same command again to retry them.")
        return 1 if failed else 0


def _say_ready(ready: Run, console: Console) -> None:
    if ready.set_aside:
        console.print(f"Renamed the old folder to {ready.set_aside}", soft_wrap=True)
    for file in ready.damaged:
        text = f"WARNING {file.name} is damaged: renamed it to {file}, running its cell again"
        console.print(text, soft_wrap=True)
    console.print(f"{ready.suite.name}: {ready.suite.about}", style="dim")


def _watch(started: Run, console: Console) -> tuple[list[Record], int] | None:
    """Run what is left under a progress bar: all records, and how many cells failed or were lost. None if it ended."""
    from tta_bench.cli.run_progress import watch

    total, folder = len(started.requests), started.store.folder
    with watch(total, console) as watcher:
        try:
            records, lost = started.finish(watcher)
        except KeyboardInterrupt:
            watcher.stop()
            console.print(
                f"Interrupted: {watcher.finished} of {total} cells are saved in {folder}. "
                f"Run the same command again to resume.",
                soft_wrap=True,
            )
            return None
        except RunStopped as error:
            watcher.stop()
            saved = f"{watcher.finished} of {total} cells are saved in {folder}"
            if isinstance(error, Cancelled):
                console.print(f"Cancelled: {saved}. Run the same command again to go on.", soft_wrap=True)
                return None
            raise UserError(f"{error}; {saved}: run the same command again to resume") from error
    watcher.say_reused("use --fresh to run them again")
    for cell in lost:
        console.print(f"{cell}", style="bold red", soft_wrap=True)
    return records, len(lost) + sum(record.status != "done" for record in records)


def _report(ready: Run, records: list[Record], console: Console, asked: RunOptions) -> None:
    """Show and write the tables; of a sweep, the averages at each value."""
    from tta_bench.api import Results
    from tta_bench.report import render
    from tta_bench.report.summary import summary
    from tta_bench.report.sweep import varying
    from tta_bench.report.write import DEFAULT, report_runs, write_sweep

    axis = next((axis for axis in ready.suite.sweep or {} if axis in varying(records)), None)
    if axis:
        options.say_written(write_sweep(records, axis, ready.store.report, console), console)
        return
    results = Results(ready.store, records, beside=bool(asked.beside))
    formats, orders = (*DEFAULT, "html"), bool(asked.orders)
    files = report_runs([results.comparison], results.runs, ready.store.report, console, formats, orders=orders)
    for sentence in summary(results.comparison, results.runs):
        console.print(sentence)
    options.say_written(files, console)
    if asked.beside:
        console.print()
        render.show(results.table().table, console)


def _detach(started: Run, console: Console) -> int:
    job, folder = started.detach(), started.store.folder
    if job is None:
        done = len(started.requests)
        console.print(f"All {done} cells are finished: `tta-bench report {folder}` shows them.")
        return 0
    last = job.handle["workers"] - 1
    how = (
        f"Started job {job.name}."
        if started.fleet and started.fleet.engine.starts_workers
        else f"Wrote job {job.name}: start `tta-bench work {folder} {job.name} INDEX` for each INDEX from 0 to {last}."
    )
    console.print(
        f"{how} `tta-bench status {folder}` shows its progress; the same command without --detach follows it.",
        soft_wrap=True,
    )
    return 0
