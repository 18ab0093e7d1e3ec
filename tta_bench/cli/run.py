"""`tta-bench run`: stream each task once per method, then show the tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options

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
    from tta_bench import suite
    from tta_bench.bench import execute
    from tta_bench.cli.progress import watch
    from tta_bench.plan import Plan
    from tta_bench.report.write import report
    from tta_bench.store import Store, refuse_unfit
    from tta_bench.tripwire import suspicion

    console = options.console()
    chosen = suite.load(args.suite)
    folder = args.out or RUNS / chosen.name
    if not args.fresh:
        refuse_unfit(folder, chosen.name)  # before the time to load a model is spent
    plan = Plan(chosen, options.choices(args))
    old = Store(folder).set_aside() if args.fresh else None
    if old:
        console.print(f"The old folder is now {old}")
    store = Store.create(folder, chosen.name)
    store.note_command(args.command, chosen.tasks, [contender.label for contender in plan.contenders])
    console.print(f"{chosen.name}: {chosen.about}", style="dim")

    if plan.suite.paper:
        warning = suspicion(plan)
        store.note_warning(warning)
        if warning:
            console.print(f"WARNING {warning}", style="bold red", markup=False)
    with watch(len(plan), console) as watcher:
        try:
            records = execute(plan, store, watcher)
        except KeyboardInterrupt:
            watcher.stop()
            console.print(
                f"Interrupted: {watcher.finished} of {len(plan)} cells are kept in {folder}. "
                f"Run the same command again to go on."
            )
            return 130
    watcher.tell_reused("use --fresh to run them again")
    console.print()
    files = report(records, store.report, console, store.warnings())
    console.print(f"Written: {', '.join(str(file) for file in files)}")
    failed = [record for record in records if record.status != "done"]
    if failed:
        console.print(f"{len(failed)} of {len(records)} cells failed; the same command again tries only these.")
    return 1 if failed else 0
