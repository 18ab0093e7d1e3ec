"""`tta-bench report`: tables from the records of runs, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options, where


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "report",
        help="rebuild the tables of a run",
        description="Build tables and a leaderboard from the records of one or more runs. "
        "Suites that reproduce the same table of a paper share one table; results that are not comparable are refused. "
        "If a folder mixes scenarios, limits or batch sizes, one group is shown: the newest without --limit, "
        "or the one that --where selects.",
    )
    options.add_runs(verb)
    verb.add_argument(
        "--format",
        type=options.names,
        metavar="A,B,…",
        help="any of terminal, md, csv, latex, html (default: terminal,md,csv; of a packed run terminal)",
    )
    verb.add_argument("--out", type=Path, metavar="DIR", help="folder for the files (default: RUN/report)")
    verb.add_argument(
        "--paper",
        nargs="?",
        const=True,
        type=paper,
        metavar="NAME",
        help="show published numbers beside measured ones; NAME is a paper or a folder with a paper.yaml "
        "(default: the paper that the suite reproduces)",
    )
    verb.add_argument(
        "--stress",
        action="store_true",
        help="also show the worst class, calibration, risk, collapse and the worst order, from the stored predictions",
    )
    where.add_metrics(verb)
    where.add(verb)
    verb.set_defaults(action=run)


def paper(name: str) -> str:
    from tta_bench.errors import UserError
    from tta_bench.papers.paper import load

    try:
        load(name)
    except UserError as error:
        raise argparse.ArgumentTypeError(f"{error}; put run folders before --paper") from error
    return name


def run(args: argparse.Namespace) -> int:
    from tta_bench.errors import UserError, require_known
    from tta_bench.packed.address import is_folder
    from tta_bench.report.choose import comparisons
    from tta_bench.report.runs import Runs
    from tta_bench.report.write import DEFAULT, FORMATS, check_folder, report_runs

    is_packed = not all(map(is_folder, args.dirs))
    formats = args.format or (("terminal",) if is_packed and not args.out else DEFAULT)
    require_known(formats, FORMATS, "unknown format")
    files_wanted = any(name != "terminal" for name in formats)
    if files_wanted and not args.out and (is_packed or len(args.dirs) > 1):
        what = "a packed run" if is_packed else "several run folders"
        raise UserError(f"{what}: pass --out DIR for the files, or use --format terminal")
    runs = Runs(args.dirs)
    folder = (args.out or runs.stores[0].report) if files_wanted else None
    if folder is not None:
        check_folder(folder)
    console = options.console()
    found = comparisons(runs.records, args.where)
    beside = "" if args.paper is True else args.paper
    files = report_runs(found, runs, folder, console, formats, beside, stress=args.stress, metrics=args.metric)
    if files:
        options.say_written(files, console)
    return 1 if any(record.status != "done" for one in found for record in one.records) else 0
