"""`tta-bench compare`: the difference between two rows with its uncertainty, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options, where


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "compare",
        help="compare two methods, with confidence intervals",
        description="Compare two rows on the same images: the difference in accuracy per task with a 95 % interval, "
        "McNemar's test and Holm's correction, then the average and a one-sentence summary.",
    )
    options.add_runs(verb)
    verb.add_argument("--a", required=True, metavar="ROW", help="the baseline row, by its label in the tables")
    verb.add_argument("--b", required=True, metavar="ROW", help="the row to compare with the baseline")
    verb.add_argument("--out", type=Path, metavar="DIR", help="also write compare.md, compare.csv and compare.tex here")
    where.add(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.report import differences, render
    from tta_bench.report.choose import comparison
    from tta_bench.report.runs import Runs
    from tta_bench.report.write import check_folder, write_difference

    if args.out:
        check_folder(args.out)
    runs = Runs(args.dirs)
    rows = comparison(runs.records, args.where)
    found = differences.difference(rows, args.a, args.b, runs)
    console = options.console()
    render.show(differences.table(found, rows.suite), console)
    console.print(differences.sentence(found))
    if args.out:
        files = write_difference(found, rows.suite, args.out)
        options.say_written(files, console)
    return 0
