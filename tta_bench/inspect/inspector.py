"""Runs a method on a few batches and looks at what it does: the features behind the figures.

Apart from the runner, so that nothing there is slower for it. Streams, models and methods are those of a run.
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
from tta_bench.inspect.inspection import Inspection, Manifest
from tta_bench.runs.bind import Binder
from tta_bench.runs.runner import Work
from tta_bench.runs.session import Session, read, source_batches, source_labels
from tta_bench.runs.site import Site
from tta_bench.runs.spec import CellSpec

Arrays = dict[str, NDArray[Any]]


def inspect(specs: Sequence[CellSpec], site: Site, *, images: int, command: Sequence[str]) -> Inspection:
    """Adapt to every stream; keep `images` images of each stream's last batch themselves."""
    place = Binder(site)
    probe.visible(place.model(specs[0]).network)  # a model that shows nothing is refused before time is spent
    originals, lacking = find_originals(place.sized(specs[0]), [spec.tasks[0] for spec in specs])
    parts: list[Arrays] = []
    offset = 0
    for work in map(place.bind, specs):
        part = _one_stream(work, originals.get(work.stream.tasks[0]), images)
        part["shown"] = part["shown"] + offset
        offset += len(part["label"])
        parts.append(part)
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    manifest = Manifest(
        inspected_suite=work.cell.suite,
        method=work.label,
        settings=work.cell.settings,
        model=work.cell.model,
        weights=work.cell.weights,
        batch_size=work.cell.batch_size,
        batches=-(-len(work.stream.order) // work.cell.batch_size),
        seed=work.cell.seed,
        lacking=lacking,
        command=tuple(command),
    )
    return Inspection(manifest=manifest, **arrays)


def find_originals(dataset: Dataset, tasks: Sequence[str]) -> tuple[dict[str, ImageSet], str]:
    """The clean counterparts of every task, or of none with a line that says what is lacking."""
    try:
        found = {task: dataset.originals(task) for task in tasks}
    except UserError as error:
        return {}, str(error)
    there = {task: images for task, images in found.items() if images is not None}
    return (there, "") if len(there) == len(tasks) else ({}, "no originals: this data has none")


def _one_stream(work: Work, originals: ImageSet | None, images: int) -> Arrays:
    looks = list(_looks(work, originals))
    arrays = {name: np.concatenate([look[name] for look in looks]) for name in looks[0]}
    count, last = len(arrays["label"]), len(looks[-1]["label"])
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


def _looks(work: Work, originals: ImageSet | None) -> Iterator[Arrays]:
    """Adapt to batch after batch; after each, look at it with the weights that it has led to."""
    setup = work.setup
    source, session = setup.model.fresh(setup.device, setup.class_mask), Session(setup)
    if work.source_images is not None:
        batches = source_batches(work.source_images, setup, work.workers)
        session.prepare(batches, source_labels(work.source_images, setup))
    method, adapted = session.method, session.model
    order = list(work.stream.batches(setup.batch_size))
    with closing(read(work.stream.images, order, setup.device, work.workers)) as batches:
        for positions, batch in zip(order, batches, strict=True):
            session.adapt(batch)
            sight = probe.look(adapted, method.features, batch)
            clean = _clean_attention(source, originals, positions, work)
            yield {
                "label": work.stream.images.labels[positions],
                "prediction": sight.features["logits"].argmax(1).cpu().numpy(),
                **_shifts(sight),
                "attention_clean": clean,
                "attention_corrupted": _numbers(probe.look(source, _logits_of(source), batch).attention),
                "attention_adapted": _numbers(sight.attention),
            }


def _clean_attention(
    source: torch.nn.Module, originals: ImageSet | None, positions: NDArray[np.int64], work: Work
) -> NDArray[np.float32]:
    height, width = probe.visible(source).patch_embed.grid_size
    if originals is None:
        return np.zeros((0, height, width), np.float32)
    with closing(loading.batches(originals, [positions], work.setup.device)) as batches:
        return _numbers(probe.look(source, _logits_of(source), next(batches)).attention)


def _shifts(sight: probe.Sight) -> Arrays:
    """Shift features of the first and the last block, and their correlation with that block's patches."""
    first_patches, last_patches = sight.patches
    none = first_patches.new_zeros(1, 0, first_patches.shape[-1])
    shifts = sight.features.get("shifts", none)
    found = {"shift_first": _numbers(shifts[0]), "shift_last": _numbers(shifts[-1])}
    for name, shift, tokens in (("first", shifts[0], first_patches), ("last", shifts[-1], last_patches)):
        correlation = pearson(shift[:, None], tokens[: len(shift)])
        found[f"correlation_{name}"] = _numbers(correlation.reshape(-1, *sight.attention.shape[1:]))
    return found


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """Correlation coefficient over the last dimension; 0 where one of the two does not vary."""
    a, b = (x - x.mean(-1, keepdim=True) for x in (a, b))
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


def _logits_of(model: torch.nn.Module) -> Any:
    return lambda batch: {"logits": model(batch)}


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().cpu().numpy()
