"""Runs a method on a few batches and captures the features behind the figures.

Separate from the runner, so that it slows down no run. Streams, models and methods are the same as in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tta_bench.data import loading
from tta_bench.data.images import ImageSet
from tta_bench.datasets import Dataset
from tta_bench.errors import UserError
from tta_bench.inspect import probe
from tta_bench.inspect.inspection import Inspection, InspectionManifest
from tta_bench.isolation.adapter import Adapter, read, source_batches, source_labels
from tta_bench.isolation.host import Work
from tta_bench.records.spec import CellSpec
from tta_bench.runs.bind import Binder
from tta_bench.runs.site import Site

Arrays = dict[str, NDArray[Any]]


def inspect(specs: Sequence[CellSpec], site: Site, *, images: int, command: Sequence[str]) -> Inspection:
    """Adapt to every stream; also store `images` images of each stream's last batch."""
    binder = Binder(site)
    probe.require_vit(binder.model(specs[0]).network)  # refuse other models before time is spent
    originals, lacking = find_originals(binder.sized(specs[0]), [spec.tasks[0] for spec in specs])
    parts: list[Arrays] = []
    offset = 0
    for work in map(binder.bind, specs):
        part = _one_stream(work, originals.get(work.stream.tasks[0]), images)
        part["shown"] = part["shown"] + offset
        offset += len(part["label"])
        parts.append(part)
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    manifest = InspectionManifest(
        inspected_suite=work.cell.spec.suite,
        method=work.cell.spec.label,
        settings=work.cell.found.settings,
        model=work.cell.spec.model,
        weights=work.cell.found.weights,
        batch_size=work.cell.spec.batch_size,
        batches=-(-len(work.stream.order) // work.cell.spec.batch_size),
        seed=work.cell.spec.seed,
        lacking=lacking,
        command=tuple(command),
    )
    return Inspection(manifest=manifest, **arrays)


def find_originals(dataset: Dataset, tasks: Sequence[str]) -> tuple[dict[str, ImageSet], str]:
    """The clean images of every task; or none, with a line that says what is missing."""
    try:
        found = {task: dataset.originals(task) for task in tasks}
    except UserError as error:
        return {}, str(error)
    originals = {task: images for task, images in found.items() if images is not None}
    return (originals, "") if len(originals) == len(tasks) else ({}, "no originals: this data has none")


def _one_stream(work: Work, originals: ImageSet | None, images: int) -> Arrays:
    batches = list(_inspect_batches(work, originals))
    arrays = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    count, last = len(arrays["label"]), len(batches[-1]["label"])
    shown = np.arange(count - last, count)[:images]
    positions = work.stream.order[shown]
    pixels = work.stream.images.read(positions)
    return {
        **arrays,
        "task": work.stream.task_of(work.stream.order),
        "shown": shown,
        "image": pixels,
        "original": originals.read(positions) if originals is not None else pixels[:0],
    }


def _inspect_batches(work: Work, originals: ImageSet | None) -> Iterator[Arrays]:
    """Adapt batch by batch; after each, capture its features with the updated weights."""
    setup = work.setup
    source, adapter = setup.model.fresh(setup.device, setup.class_mask), Adapter(setup)
    if work.source_images is not None:
        batches = source_batches(work.source_images, setup, work.workers)
        adapter.prepare(batches, source_labels(work.source_images, setup))
    method, adapted = adapter.method, adapter.model
    order = list(work.stream.batches(setup.batch_size))
    with closing(read(work.stream.images, order, setup.device, work.workers)) as batches:
        for positions, batch in zip(order, batches, strict=True):
            adapter.adapt(batch)
            captured = probe.capture(adapted, method.features, batch)
            clean = _clean_attention(source, originals, positions, work)
            yield {
                "label": work.stream.images.labels[positions],
                "prediction": captured.features["logits"].argmax(1).cpu().numpy(),
                **_shifts(captured),
                "attention_clean": clean,
                "attention_corrupted": _numbers(probe.capture(source, _logits_of(source), batch).attention),
                "attention_adapted": _numbers(captured.attention),
            }


def _clean_attention(
    source: torch.nn.Module, originals: ImageSet | None, positions: NDArray[np.int64], work: Work
) -> NDArray[np.float32]:
    height, width = probe.require_vit(source).patch_embed.grid_size
    if originals is None:
        return np.zeros((0, height, width), np.float32)
    with closing(loading.batches(originals, [positions], work.setup.device)) as batches:
        return _numbers(probe.capture(source, _logits_of(source), next(batches)).attention)


def _shifts(captured: probe.Activations) -> Arrays:
    """Shift features of the first and the last block, and their correlation with that block's patches."""
    first_patches, last_patches = captured.patches
    none = first_patches.new_zeros(1, 0, first_patches.shape[-1])
    shifts = captured.features.get("shifts", none)
    found = {"shift_first": _numbers(shifts[0]), "shift_last": _numbers(shifts[-1])}
    for name, shift, tokens in (("first", shifts[0], first_patches), ("last", shifts[-1], last_patches)):
        correlation = pearson(shift[:, None], tokens[: len(shift)])
        found[f"correlation_{name}"] = _numbers(correlation.reshape(-1, *captured.attention.shape[1:]))
    return found


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """Correlation coefficient over the last dimension; 0 where one of the two does not vary."""
    a, b = (x - x.mean(-1, keepdim=True) for x in (a, b))
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


def _logits_of(model: torch.nn.Module) -> Any:
    return lambda batch: {"logits": model(batch)}


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().cpu().numpy()
