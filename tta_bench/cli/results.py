"""`tta-bench results`: the published tables that come with the package, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "results",
        help="published results, as tables or CSV",
        description="List the suites with published results, or show the table of one. They are the board's records as "
        "they were submitted, and come with the package.",
    )
    verb.add_argument("suite", nargs="?", metavar="SUITE", help="show this suite's table")
    verb.add_argument("--out", type=Path, metavar="FILE", help="also write one line per cell and task to this .csv")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.errors import UserError
    from tta_bench.files import write_text
    from tta_bench.published import results
    from tta_bench.report import render
    from tta_bench.report.tables import accuracy_table

    console = options.console()
    if args.suite is None:
        if args.out:
            raise UserError("--out: name a suite as well: tta-bench results SUITE --out FILE")
        for name in results.names():
            rows = results.comparison(name).rows
            console.print(f"{name}: {len(rows)} methods, {sum(len(row.records) for row in rows):,} cells")
        return 0
    render.show(accuracy_table(results.comparison(args.suite)), console)
    if args.out:
        write_text(args.out, results.load_results(args.suite).to_csv(index=False))
        options.say_written([args.out], console)
    return 0
