"""How often the collapse alarm is right: `python -m benchmarks.collapse_alarm RUN…` prints a table.

Labels decide what a collapse is: on the last 256 images, less than half of Source's accuracy. The alarm sees no labels.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tta_bench.measure.collapse import collapsed_at
from tta_bench.records.record import Record
from tta_bench.records.store import Store

LAST = 256


def judged(folder: Path) -> list[tuple[bool, bool]]:
    """For each finished stream of each method: whether it collapsed, and whether the alarm says so."""
    store = Store.open(folder)
    done = [record for record in store.records() if record.status == "done"]
    source = {record.cell.found.stream: record for record in done if record.cell.spec.method == "source"}
    return [
        _judge(store, record, source[record.cell.found.stream])
        for record in done
        if record.cell.spec.method != "source" and record.cell.found.stream in source
    ]


def _judge(store: Store, record: Record, source: Record) -> tuple[bool, bool]:
    own, base = store.predictions(record), store.predictions(source)
    truth = own.correct[-LAST:].mean() < 0.5 * base.correct[-LAST:].mean()
    return bool(truth), collapsed_at(own.prediction, base.prediction, record.cell.spec.batch_size) is not None


def main(folders: list[Path]) -> None:
    print("| run | streams | collapsed | found by the alarm | false alarms |\n|---|---|---|---|---|")
    for folder in folders:
        found = judged(folder)
        collapsed = [alarm for truth, alarm in found if truth]
        fine = [alarm for truth, alarm in found if not truth]
        suite = Store.open(folder).read_manifest().suite
        print(f"| {suite} | {len(found)} | {len(collapsed)} | {sum(collapsed)} | {sum(fine)} of {len(fine)} |")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
