"""The stream of a finished cell, made again from its record and the data on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tta_bench.data.images import fingerprint
from tta_bench.datasets import open_dataset
from tta_bench.errors import UserError
from tta_bench.records.cell import Cell
from tta_bench.streams.scenarios import Material, protocol
from tta_bench.streams.stream import Stream, digest, make_stream


@dataclass(frozen=True)
class Again:
    """A stream, and whether a sample of its pixels is that of the record."""

    stream: Stream
    same_pixels: bool


def stream_again(cell: Cell, root: Path | None) -> Again:
    """The images of a cell in their order, sized as its model saw them; UserError if they are not the record's."""
    spec, view = cell.spec, cell.found.data.get("transform")
    dataset = open_dataset(spec.data, spec.tasks, root)
    if view:
        dataset = dataset.sized(view["crop"], view["interpolation"])
    scenario = protocol(spec)
    parts = scenario.parts(Material(dataset, spec.data, spec.suite, spec.seed, spec.tasks, root), dataset.transform)
    stream = make_stream(scenario, spec.suite, spec.seed, parts, spec.limit)
    if stream.digest != cell.found.stream:
        raise UserError(
            f"the images on this machine are not those of {cell.slug}: their order has the digest {stream.digest}, "
            f"the record's is {cell.found.stream}"
        )
    return Again(stream, digest([fingerprint(part.images) for part in parts]) == cell.found.images)
