"""A trial of a method on a few real images: finds in a second what would fail a cell after an hour."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tta_bench.data import loading
from tta_bench.data.images import ImageSet
from tta_bench.errors import CellFailed, UserError, third_party
from tta_bench.isolation.adapter import Adapter
from tta_bench.isolation.host import Work
from tta_bench.isolation.logits import answer_of
from tta_bench.isolation.start import Start

BATCH = 2  # images: enough to see shapes, few enough for a large model on a CPU
BATCHES = 2  # the second shows what the first update broke


def try_out(work: Work, adapter: Adapter) -> str:
    """Prepare and adapt as a cell would; says on how many images and where the method starts, or raises UserError."""
    stream, setup = work.stream, work.setup
    images, start = 0, Start(setup)
    order = list(stream.batches(min(BATCH, setup.batch_size)))[:BATCHES]
    source = work.source_images
    if source is not None:
        sample = np.arange(min(BATCH, len(source.ids)))
        labels = [torch.from_numpy(source.labels[sample]).to(setup.device)]
        with third_party("prepare failed"):
            adapter.prepare(_read(source, [sample], work), labels)
    for indices, batch in zip(order, _read(stream.images, order, work), strict=True):
        with third_party("adapt failed"):
            logits = adapter.adapt(batch)
        try:
            start.keep(batch, answer_of(logits, len(indices), setup.num_classes, after=images))
        except CellFailed as error:
            raise UserError(str(error)) from error
        images += len(indices)
    changed = start.differing() if adapter.method.score_point == "pre-update" else 0
    unlike = f"; before its first update, {changed} of {len(order[0])} answers differ from Source's"
    return f"{images} images of {work.cell.name}{unlike if changed else ''}"


def _read(images: ImageSet, order: Sequence[NDArray[np.int64]], work: Work) -> list[Tensor]:
    with closing(loading.batches(images, order, work.setup.device)) as batches:
        return [batch.clone() for batch in batches]
