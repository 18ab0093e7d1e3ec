"""`tta-bench run`: stream each task once per method, then show the tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options
from tta_bench.cli.options import RUNS


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
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.api import Results
    from tta_bench.cli.progress import watch
    from tta_bench.report.summary import summary
    from tta_bench.report.write import DEFAULT, report_runs
    from tta_bench.runs.launch import launch

    chosen, choices = options.chosen(args)
    folder = args.out or RUNS / chosen.name
    ready = launch(chosen, choices, options.site(args), folder, command=args.command, fresh=args.fresh)
    console = options.console()
    if ready.set_aside:
        console.print(f"Renamed the old folder to {ready.set_aside}", soft_wrap=True)
    for file in ready.damaged:
        console.print(f"WARNING {file.name} is damaged: renamed it to {file}, running its cell again", soft_wrap=True)
    console.print(f"{chosen.name}: {chosen.about}", style="dim")
    with watch(len(ready.requests), console) as watcher:
        try:
            records = ready.run(watcher)
        except KeyboardInterrupt:
            watcher.stop()
            console.print(
                f"Interrupted: {watcher.finished} of {len(ready.requests)} cells are saved in {folder}. "
                f"Run the same command again to resume.",
                soft_wrap=True,
            )
            return 130
    watcher.say_reused("use --fresh to run them again")
    console.print()
    results = Results(ready.store, records)
    files = report_runs([results.comparison], results.runs, ready.store.report, console, (*DEFAULT, "html"))
    for sentence in summary(results.comparison, results.runs):
        console.print(sentence)
    options.say_written(files, console)
    failed = [record for record in records if record.status != "done"]
    if failed:
        console.print(f"{len(failed)} of {len(records)} cells failed. Run the same command again to retry them.")
    return 1 if failed else 0
