"""Makes tta_bench/verify/source.csv: Source's accuracies, from run folders of our suites.

    python -m benchmarks.source_reference results/runs/digit-pairs-c-5 …

Each line is one task; seeds must agree to within the distance that `tta-bench verify` allows. Lines of other data and
weights stay as they are.
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
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for record in Runs(folders).records:
        spec = record.cell.spec
        if spec.method == "source" and record.status == "done" and record.reportable and len(spec.tasks) == 1:
            data, weights = json.dumps(spec.data, sort_keys=True), record.cell.found.weights
            key = data, weights, spec.amp or "", spec.tasks[0], str(record.scores.samples)
            found[key].append(record.scores.top1)
    lines = {tuple(line[key] for key in reference.COLUMNS[:-1]): line["top1"] for line in reference.lines()}
    for key, scores in found.items():
        assert max(scores) - min(scores) <= reference.DISTANCE, f"{key}: seeds give {scores}"
        lines[key] = f"{statistics.fmean(scores):.6f}"
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([reference.COLUMNS, *((*key, top1) for key, top1 in sorted(lines.items()))])
    path = Path(reference.__file__).with_name(reference.FILE)
    write_whole(path, out.getvalue().encode())
    print(f"{path}: {len(found)} tasks of {len(lines)}")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
