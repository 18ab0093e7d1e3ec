"""`tta-bench run`: stream each task once per method, then show the tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import engines, options
from tta_bench.cli.options import RUNS
from tta_bench.errors import RunStopped, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.engines.session import Session
    from tta_bench.runs.launch import Launch


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "run",
        help="compare methods on a suite",
        description="Compare methods on a suite. Finished cells are saved: run the same command again to resume. "
        "Several processes may share one folder.",
    )
    options.add_choices(verb)
    out = verb.add_argument_group("where results go")
    out.add_argument("--out", type=Path, metavar="DIR", help=f"run folder (default: {RUNS}/<suite>)")
    out.add_argument("--fresh", action="store_true", help="start over; the old folder is renamed, not deleted")
    engines.add(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.runs.launch import launch

    chosen, choices = options.chosen(args)
    folder = args.out or RUNS / chosen.name
    with engines.session(args) as session:
        check = session.check if session else None
        site = options.site(args)
        ready = launch(chosen, choices, site, folder, command=args.command, fresh=args.fresh, check=check)
        console = options.console()
        if ready.set_aside:
            console.print(f"Renamed the old folder to {ready.set_aside}", soft_wrap=True)
        for file in ready.damaged:
            text = f"WARNING {file.name} is damaged: renamed it to {file}, running its cell again"
            console.print(text, soft_wrap=True)
        console.print(f"{chosen.name}: {chosen.about}", style="dim")
        if session and args.detach:
            return _detach(session, ready, folder, console)
        return _run(session, ready, folder, console)


def _run(session: Session | None, ready: Launch, folder: Path, console: Console) -> int:
    from tta_bench.api import Results
    from tta_bench.cli.progress import watch
    from tta_bench.report.summary import summary
    from tta_bench.report.write import DEFAULT, report_runs

    with watch(len(ready.requests), console) as watcher:
        try:
            records, lost = session.run(ready, watcher) if session else (ready.run(watcher), [])
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
            raise UserError(f"{error}; {saved}: run the same command again to resume") from error
    watcher.say_reused("use --fresh to run them again")
    for cell in lost:
        console.print(f"{cell}", style="bold red", soft_wrap=True)
    console.print()
    if records:
        results = Results(ready.store, records)
        files = report_runs([results.comparison], results.runs, ready.store.report, console, (*DEFAULT, "html"))
        for sentence in summary(results.comparison, results.runs):
            console.print(sentence)
        options.say_written(files, console)
    failed = len(lost) + sum(record.status != "done" for record in records)
    if failed:
        console.print(f"{failed} of {len(ready.requests)} cells failed. Run the same command again to retry them.")
    return 1 if failed else 0


def _detach(session: Session, ready: Launch, folder: Path, console: Console) -> int:
    job = session.detach(ready)
    if job is None:
        console.print(f"All {len(ready.requests)} cells are finished: `tta-bench report {folder}` shows them.")
        return 0
    console.print(
        f"Started job {job.name}. `tta-bench status {folder}` shows how it goes on; "
        f"the same command without --detach follows it.",
        soft_wrap=True,
    )
    return 0
