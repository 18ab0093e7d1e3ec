"""What choosing settings without labels costs: `python -m benchmarks.criteria RUN [--where KEY=VALUE]` prints a table.

RUN is a folder of `tta-bench tune`. For each method, the settings that are done for every seed and task compete.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tta_bench.report.choose import comparison, parse
from tta_bench.report.criteria import CRITERIA, choice_table
from tta_bench.report.runs import Runs


def main(folder: Path, where: list[str]) -> None:
    runs = Runs([folder])
    found = comparison(runs.records, [parse(text) for text in where])
    print(f"| method | settings | {' | '.join(CRITERIA)} |\n|---|---|{'---|' * len(CRITERIA)}")
    for method in dict.fromkeys(row.first.cell.spec.method for row in found.rows):
        rows = tuple(row for row in found.rows if row.first.cell.spec.method == method)
        if len(rows) > 1:
            table = choice_table(replace(found, rows=rows), runs)
            lost = {name: values[2].mean for name, values in table.rows}
            best = next(values[1].mean for name, values in table.rows if name == "accuracy")
            cells = [f"{best:.1f}", *(f"−{lost[name]:.1f}" for name in CRITERIA if name != "accuracy")]
            print(f"| {method} | {len(rows)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
