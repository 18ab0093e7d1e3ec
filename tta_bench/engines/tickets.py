"""In which order workers take cells, and what a cell will cost. Needs no torch, apart from `bound_hints`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tta_bench.engines.job import Expected, Ticket
from tta_bench.papers.baseline import BASELINE
from tta_bench.records.live import BACKWARD
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.registry import installed
from tta_bench.runs.site import Site

if TYPE_CHECKING:
    from tta_bench.records.cell import Cell

UNKNOWN = 1 + BACKWARD  # passes of a method that does not say how many it does: one of each


@dataclass(frozen=True)
class Hints:
    """What the checks before a job have found out."""

    passes: Mapping[str, float] = field(default_factory=dict)  # by method: the cost of an image, in forward passes
    expected: Mapping[str, Expected] = field(default_factory=dict)  # by the digest of a spec


def passes(requests: Iterable[CellSpec]) -> dict[str, float]:
    """The cost of each method in forward passes, as it describes itself."""
    return {name: _passes(installed().load(name).passes) for name in {spec.method for spec in requests}}


def bound_hints(requests: Sequence[CellSpec], site: Site) -> Hints:
    """Check requests on this machine, and find out what each cell's identity must be on others."""
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.execute import refuse_unfit

    place = Binder(site)
    refuse_unfit(requests, place)
    return Hints(passes(requests), {spec.digest: identity(place.bind(spec).cell) for spec in requests})


def identity(cell: Cell) -> Expected:
    """The parts of a cell that must be the same on every machine; the device may differ."""
    found = cell.found
    return Expected(
        key=replace(cell, found=replace(found, device="")).key,
        code=f"{found.harness} {found.method_code} {found.data_code}",
        weights=found.weights,
        images=f"{found.images} {found.stream} {found.source}",
    )


def mismatch(expected: Expected, found: Expected, host: str) -> str:
    """How a cell on this host differs from what the coordinator expects, in one line; empty if it does not."""
    if expected.key == found.key:
        return ""
    parts = [name for name in ("code", "weights", "images") if getattr(expected, name) != getattr(found, name)]
    what = " and ".join(parts) or "settings"
    return f"{host} has other {what} than the coordinator: install the same versions and data there"


def tickets(requests: Sequence[CellSpec], hints: Hints, records: Iterable[Record]) -> tuple[list[Ticket], bool]:
    """Tickets in the order in which workers take them, and whether their costs are in seconds.

    Source comes first: its times limit those of the other methods, and wrong data shows at once. Then expensive cells
    come first, so that no worker is left alone with a long one at the end.
    """
    seconds: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for record in records:
        if record.status == "done":
            cell = record.cell
            name = (record.label, cell.spec.scenario, cell.spec.limit)
            seconds[name].append(sum(record.measured.seconds[part] for part in ("adapt", "load", "build")))
    known = {spec.digest: seconds.get((spec.label, spec.scenario, spec.limit)) for spec in requests}
    weight = {spec.digest: len(spec.tasks) * hints.passes.get(spec.method, UNKNOWN) for spec in requests}
    scales = [fmean(found) / weight[digest] for digest, found in known.items() if found]
    scale = fmean(scales) if scales else 1.0
    costs = {digest: fmean(found) if found else scale * weight[digest] for digest, found in known.items()}
    made = [Ticket(spec, round(costs[spec.digest], 3), hints.expected.get(spec.digest)) for spec in requests]
    return sorted(made, key=lambda ticket: (ticket.spec.method != BASELINE, -ticket.cost)), bool(scales)


def _passes(text: str) -> float:
    """The sum of what a method says, as in "1 forward and backward; 1 of each for reliable samples"."""
    total = 0.0
    for part in re.split(r"[;,]", text):
        count = re.search(r"\d+", part)
        is_both = re.search(r"\d+ of each", part) is not None
        forwards, backwards = "backward" not in part or "forward" in part, is_both or "backward" in part
        total += (float(count[0]) if count else 0.0) * (forwards + BACKWARD * backwards)
    return total or UNKNOWN
