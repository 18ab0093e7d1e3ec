"""`tta-bench report`: tables from the records of runs, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options, where


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "report",
        help="make the tables of a run again",
        description="Make tables and a leaderboard from the records of one or several runs. "
        "Runs whose suites answer one table of a paper share a table; what is not comparable is refused. "
        "A folder that mixes scenarios, limits or batch sizes is reported in groups: the newest one of whole streams, "
        "or that of --where.",
    )
    verb.add_argument("dirs", type=Path, nargs="+", metavar="DIR", help="a run's folder")
    verb.add_argument(
        "--format",
        type=options.names,
        default=("terminal", "md", "csv"),
        metavar="A,B,…",
        help="of terminal, md, csv, latex and html (default: terminal,md,csv)",
    )
    verb.add_argument("--out", type=Path, metavar="DIR", help="where the files go (default: DIR/report)")
    verb.add_argument(
        "--paper",
        nargs="?",
        const=True,
        type=paper,
        metavar="NAME",
        help="put a paper's numbers beside the measured ones: its name, or a folder with its paper.yaml "
        "(default: the paper that the suite reproduces)",
    )
    where.add(verb)
    verb.set_defaults(action=run)


def paper(name: str) -> str:
    from tta_bench.errors import UserError
    from tta_bench.papers.paper import load

    try:
        load(name)
    except UserError as error:
        raise argparse.ArgumentTypeError(f"{error}; run folders go before --paper") from error
    return name


def run(args: argparse.Namespace) -> int:
    from tta_bench.errors import UserError
    from tta_bench.report.choose import comparisons
    from tta_bench.report.runs import Runs
    from tta_bench.report.write import check_formats, report_runs

    check_formats(args.format)
    files_wanted = any(name != "terminal" for name in args.format)
    if files_wanted and not args.out and len(args.dirs) > 1:
        raise UserError("several run folders: say with --out where the files go, or ask for --format terminal")
    runs = Runs(args.dirs)
    folder = (args.out or runs.stores[0].report) if files_wanted else None
    console = options.console()
    found = comparisons(runs.records, args.where)
    beside = "" if args.paper is True else args.paper
    files = report_runs(found, runs, folder, console, args.format, beside)
    if files:
        options.tell_written(files, console)
    return 1 if any(record.status != "done" for one in found for record in one.records) else 0
