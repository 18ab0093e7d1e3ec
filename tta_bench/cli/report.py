"""`tta-bench report`: tables from the records of a run, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "report",
        help="make the tables of a run again",
        description="Make the accuracy and time tables from a run's records: on the screen, as Markdown and as CSV.",
    )
    verb.add_argument("dir", type=Path, metavar="DIR", help="a run's folder")
    verb.add_argument("--out", type=Path, metavar="DIR", help="where the files go (default: DIR/report)")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.report.write import report
    from tta_bench.store import Store

    store = Store.open(args.dir)
    records = store.records()
    console = options.console()
    files = report(records, args.out or store.report, console, store.warnings())
    console.print(f"Written: {', '.join(str(file) for file in files)}")
    return 1 if any(record.status != "done" for record in records) else 0
