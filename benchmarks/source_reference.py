"""Makes tta_bench/verify/source.csv: Source's accuracies, from run folders of the embedded suites.

    python -m benchmarks.source_reference results/runs/digit-pairs-c-5 …

Each line is one task; seeds must agree to within the distance that `tta-bench verify` allows.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from tta_bench.files import write_whole
from tta_bench.report.runs import Runs
from tta_bench.verify import reference


def main(folders: list[Path]) -> None:
    found: dict[tuple[str, str, str, int], list[float]] = defaultdict(list)
    for record in Runs(folders).records:
        cell = record.cell
        if cell.spec.method == "source" and record.status == "done" and record.reportable and len(cell.spec.tasks) == 1:
            data = json.dumps(cell.spec.data, sort_keys=True)
            found[data, cell.found.weights, cell.spec.tasks[0], record.scores.samples].append(record.scores.top1)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(reference.COLUMNS)
    for key, scores in sorted(found.items()):
        assert max(scores) - min(scores) <= reference.DISTANCE, f"{key}: seeds give {scores}"
        writer.writerow([*key, f"{statistics.fmean(scores):.6f}"])
    path = Path(reference.__file__).with_name(reference.FILE)
    write_whole(path, out.getvalue().encode())
    print(f"{path}: {len(found)} tasks")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
