"""What cells will cost, and in which order workers take them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from tta_bench.engines.job import Entry
from tta_bench.papers.baseline import BASELINE
from tta_bench.records.live import BACKWARD
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.registry import installed

PARTS = ("adapt", "load", "prepare", "build")  # of the time that a cell takes


def seconds(record: Record) -> float:
    """How long a cell took."""
    return sum(record.measured.seconds.get(part, 0.0) for part in PARTS)


def passes(forwards: float, backwards: float) -> float:
    """The cost of passes, in forward passes."""
    return forwards + BACKWARD * backwards


def ordered(entries: Sequence[Entry], records: Iterable[Record]) -> tuple[list[Entry], bool]:
    """Entries with their costs in the order in which workers take them, and whether costs are seconds.

    Source comes first: its times limit those of the other methods, and wrong data shows at once. Then expensive cells
    come first, so that no worker is left alone with a long one at the end.
    """
    took: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    counted: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if record.status == "done":
            spec, counts = record.cell.spec, record.measured
            took[spec.label, spec.scenario, spec.limit].append(seconds(record))
            per_image = passes(counts.sample_forwards, counts.sample_backwards) / max(record.scores.samples, 1)
            counted[spec.label].append(per_image)
    weights = {entry.spec.digest: _weight(entry.spec, counted) for entry in entries}
    known = {e.spec.digest: took.get((e.spec.label, e.spec.scenario, e.spec.limit)) for e in entries}
    scales = [fmean(found) / weights[digest] for digest, found in known.items() if found]
    scale = fmean(scales) if scales else 1.0
    costs = {digest: fmean(found) if found else scale * weights[digest] for digest, found in known.items()}
    made = [replace(entry, cost=round(costs[entry.spec.digest], 3)) for entry in entries]
    return sorted(made, key=lambda entry: (entry.spec.method != BASELINE, -entry.cost)), bool(scales)


def _weight(spec: CellSpec, counted: dict[str, list[float]]) -> float:
    """The cost of a cell in forward passes: as counted in earlier records, else as its method declares."""
    found = counted.get(spec.label)
    declared = passes(*installed().load(spec.method).passes_per_image)
    return len(spec.tasks) * max(fmean(found) if found else declared, 1e-3)
