"""Makes the entries of the built-in methods: `python -m benchmarks.board_entries RUN BOARD`.

Each row of the run but Source becomes a submission `<row>-<suite>` with Source beside it. An entry that exists keeps
its reruns and its date.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path

from tta_bench import registry
from tta_bench.board.new import draft
from tta_bench.board.submission import DEFAULTS, FILE, RUN, Entry, Who, read_entry, write_entry
from tta_bench.errors import UserError
from tta_bench.packed.pack import pack
from tta_bench.records.store import Store
from tta_bench.static_facts import published_settings

US = Who("tta-bench")


def entry_of(store: Store, label: str, name: str, holdout: str) -> Entry:
    """The entry of one row; its settings were chosen on the held-out suite, unless they are the defaults."""
    record = next(one for one in store.records() if one.label == label)
    (facts,) = registry.describe([record.cell.spec.method])
    base = published_settings(record.cell.spec.method)
    own = record.cell.own_settings
    is_default = all(own[key] == base[key] for key in own.keys() & base.keys())
    return replace(
        draft(store, name, [label]),
        title=f"{re.split('[.;:](?: |$)', facts['idea'])[0]} ({facts['paper']})",
        who=US,
        chosen_on=(DEFAULTS if is_default else holdout,),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Make board entries of the built-in methods from a run folder.")
    parser.add_argument("run", type=Path)
    parser.add_argument("board", type=Path)
    parser.add_argument("--holdout", default="digits-c-holdout", help="the suite that settings were chosen on")
    args = parser.parse_args()
    try:
        store = Store.open(args.run)
        suite = store.read_manifest().suite
        labels = dict.fromkeys(record.label for record in store.records() if record.cell.spec.method != "source")
        for label in labels:
            name = f"{label}-{suite}".lower()
            entry = entry_of(store, label, name, args.holdout)
            if (args.board / name / FILE).exists():
                old = read_entry(args.board / name / FILE)
                entry = replace(entry, date=old.date, reruns=old.reruns, retraction=old.retraction)
            pack(args.run, args.board / name / RUN, ["source", label])
            write_entry(entry, args.board / name / FILE)
            print(args.board / name)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
