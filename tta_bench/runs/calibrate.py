"""Measures Source under each corruption at rising severities, for the scenario `ccc`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import numpy as np
import torch

from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.data.seeding import permutation
from tta_bench.errors import UserError
from tta_bench.isolation.adapter import Adapter, read
from tta_bench.records.spec import CellSpec
from tta_bench.runs.bind import Binder
from tta_bench.streams.ccc.images import ChangingImages, clean_images
from tta_bench.streams.ccc.walk import SEVERITIES, Calibration, Point


def calibrate(spec: CellSpec, binder: Binder, images: int, on_measured: Callable[[str], None]) -> Calibration:
    """The accuracy of a spec's model on a sample of the clean images, corrupted; the same sample everywhere."""
    native, model = binder.dataset(spec), binder.model(spec)
    clean = clean_images(native, spec.tasks[0])
    rows = np.sort(permutation(len(clean.ids), "calibration")[:images])
    adapter = Adapter(binder.setup(spec), shares_weights=True)
    view = binder.sized(spec).transform

    def accuracy(corruption: str, severity: float) -> float:
        point = Point(corruption, severity, corruption, 0)
        shown = ChangingImages(clean, rows, [point], np.zeros(len(rows), np.int64), view)
        order = np.split(np.arange(len(rows)), range(spec.batch_size, len(rows), spec.batch_size))
        with torch.no_grad(), closing(read(shown, order, binder.device, binder.site.readers)) as batches:
            found = torch.cat([adapter.model(batch).argmax(1).cpu() for batch in batches])
        return float((found.numpy() == shown.labels).mean())

    known = [name for name in (*CORRUPTIONS, *HELD_OUT) if name in native.tasks()]
    if not known:
        raise UserError(f"suite '{spec.suite}' has no corruption of ImageNet-C, which --scenario ccc combines")
    without = accuracy(known[0], 0)
    measured = {}
    for name in known:
        measured[name] = [round(value, 4) for value in [without, *(accuracy(name, s) for s in SEVERITIES[1:])]]
        on_measured(name)
    return Calibration(model.name, model.weights_hash, len(rows), native.num_classes, measured)
