"""Compares a run with a table made earlier: every cell of both must have the same accuracy on the same stream.

python -m benchmarks.same_results results/runs/digits-c-5 results/digits-c-5/leaderboard.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from tta_bench.records.store import Store

Key = tuple[str, str, str]  # label, task, seed
Values = dict[str, str]


def made_earlier(table: Path) -> dict[Key, Values]:
    with table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "done"]
    return {
        (row["label"], row["task"], row["seed"]): {k: row[k] for k in ("top1", "top5", "ece", "weights", "stream")}
        for row in rows
    }


def made_now(run: Path) -> dict[Key, Values]:
    found = {}
    for record in Store.open(run).records():
        cell = record.cell
        if record.status == "done" and cell.spec.limit is None and len(cell.spec.tasks) == 1:
            scores = {name: f"{getattr(record.scores, name):.4f}" for name in ("top1", "top5", "ece")}
            found[record.label, cell.spec.tasks[0], str(cell.spec.seed)] = {
                **scores, "weights": cell.found.weights, "stream": cell.found.stream
            }  # fmt: skip
    return found


def differences(earlier: dict[Key, Values], now: dict[Key, Values]) -> list[str]:
    return [
        f"{label} on {task}, seed {seed}: {name} was {earlier[key][name]}, is {value}"
        for key in sorted(earlier.keys() & now.keys())
        for name, value in now[key].items()
        if value != earlier[key][name]
        for label, task, seed in [key]
    ]


if __name__ == "__main__":
    earlier, now = made_earlier(Path(sys.argv[2])), made_now(Path(sys.argv[1]))
    both = earlier.keys() & now.keys()
    found = differences(earlier, now)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(both)} of {len(earlier)} cells were made again, {len(found)} of their values differ")
    print(f"{len(now.keys() - both)} cells are new")
    sys.exit(bool(found) or not both)
