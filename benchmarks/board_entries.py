"""Makes the entries of the built-in methods: `python -m benchmarks.board_entries RUN BOARD`.

Each row of the run but Source becomes a submission `<row>-<suite>` with Source beside it. With `--together NAME` all
rows become one submission of this name, so that Source comes once. Rows that lack tasks are left out. An entry that
exists keeps its reruns and its date.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tta_bench import registry
from tta_bench.board.new import draft, with_source
from tta_bench.board.review import Review
from tta_bench.board.rows import check_complete
from tta_bench.board.submission import DEFAULTS, FILE, RUN, Entry, Who, read_entry, write_entry
from tta_bench.checked.readers import names, seeds
from tta_bench.errors import UserError
from tta_bench.packed.pack import pack
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report.grouping import grouped
from tta_bench.static_facts import published_settings
from tta_bench.suites import suite as suites

US = Who("tta-bench")


def entry_of(store: Store, labels: Sequence[str], name: str, title: str, holdout: str) -> Entry:
    """The entry of these rows; their settings were chosen on the held-out suite, unless they are the defaults."""
    rows = {record.label: record for record in store.records() if record.label in labels}
    return replace(
        draft(store, name, labels),
        title=title or _idea(rows[labels[0]]),
        who=US,
        chosen_on=(DEFAULTS if all(map(_has_defaults, rows.values())) else holdout,),
    )


def _idea(record: Record) -> str:
    (facts,) = registry.describe([record.cell.spec.method])
    return f"{re.split('[.;:](?: |$)', facts['idea'])[0]} ({facts['paper']})"


def _has_defaults(record: Record) -> bool:
    own, base = record.cell.own_settings, published_settings(record.cell.spec.method)
    return all(own[key] == base[key] for key in own.keys() & base.keys())


def complete(store: Store, wanted: Sequence[str], kept: Sequence[int]) -> list[str]:
    """The rows but Source that the board accepts as complete, of the wanted ones; prints what is left out."""
    records = [record for record in store.records() if not kept or record.cell.spec.seed in kept]
    rows = grouped(records, lambda record: record.label)
    found = []
    for label in wanted:
        if label not in rows:
            print(f"left out: there is no row {label}", file=sys.stderr)
    for label, own in rows.items():
        if own[0].cell.spec.method == "source" or (wanted and label not in wanted):
            continue
        review = Review(label)
        check_complete({label: own}, suites.load(store.read_manifest().suite), review)
        if review.problems:
            print(f"left out: {review.problems[0].text}", file=sys.stderr)
        else:
            found.append(label)
    return found


def write(run: Path, folder: Path, entry: Entry, labels: Sequence[str], kept: Sequence[int]) -> None:
    """Write an entry in its folder, over an older state of it."""
    if (folder / FILE).exists():
        old = read_entry(folder / FILE)
        entry = replace(entry, date=old.date, reruns=old.reruns, retraction=old.retraction)
    pack(run, folder / RUN, with_source(Store.open(run), labels), kept)
    write_entry(entry, folder / FILE)
    print(f"{folder}: {', '.join(labels)}: {(folder / RUN).stat().st_size:,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make board entries of the built-in methods from a run folder.")
    parser.add_argument("run", type=Path)
    parser.add_argument("board", type=Path)
    parser.add_argument("--holdout", default="digits-c-holdout", help="the suite that settings were chosen on")
    parser.add_argument("--rows", type=names, default=(), metavar="A,B,…", help="only these rows")
    parser.add_argument("--seeds", type=seeds, default=(), metavar="0,1,…", help="only these seeds")
    parser.add_argument("--together", metavar="NAME", help="one entry of this name for all rows")
    parser.add_argument("--title", default="", help="of the entry; default: the idea of its first method")
    args = parser.parse_args()
    try:
        store = Store.open(args.run)
        labels = complete(store, args.rows, args.seeds)
        if not labels:
            raise UserError(f"{args.run}: has no complete row but Source")
        suite = store.read_manifest().suite
        groups = {args.together: labels} if args.together else {f"{row}-{suite}".lower(): [row] for row in labels}
        for name, rows in groups.items():
            entry = entry_of(store, rows, name, args.title, args.holdout)
            write(args.run, args.board / name, entry, rows, args.seeds)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
