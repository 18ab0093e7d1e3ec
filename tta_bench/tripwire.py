"""The Source tripwire: before hours are spent, see whether Source scores what the paper says for these weights."""

from __future__ import annotations

import math
from contextlib import closing
from itertools import islice

import torch

from tta_bench.plan import Plan
from tta_bench.published import accuracies, paper_task
from tta_bench.registry import build_method
from tta_bench.runner import read

IMAGES = 1024
SIGMAS, SLACK = 4.0, 0.01
DRAWN_FROM_THE_TASK = ("normal", "single", "continual")


def suspicion(plan: Plan) -> str | None:
    """A sentence if Source is far from the published row on the first batches; None if all seems well.

    Only where these batches are a fair draw from the published task: not the few classes or the mild severity with
    which other scenarios begin.
    """
    if plan.scenario not in DRAWN_FROM_THE_TASK:
        return None
    work = next(plan.work())
    task = work.cell.tasks[0]
    published = accuracies(plan.suite.paper).get(("source", paper_task(task)))
    if published is None:
        return None
    method = build_method(
        "source",
        work.model.fresh(work.device, work.class_mask),
        num_classes=work.num_classes,
        batch_size=work.cell.batch_size,
    )
    few = list(islice(work.stream.batches(work.cell.batch_size), math.ceil(IMAGES / work.cell.batch_size)))
    hits = images = 0
    with closing(read(work, work.stream.images, few)) as batches:
        for indices in few:
            found = method.adapt(next(batches)).argmax(1).cpu()
            hits += int((found == torch.from_numpy(work.stream.images.labels[indices])).sum())
            images += len(indices)
    return judge(task, hits, images, published.accuracy / 100, work.model.mean)


def judge(task: str, hits: int, images: int, expected: float, mean: tuple[float, ...]) -> str | None:
    """Compare with what is published; a difference beyond chance names its likely cause."""
    measured = hits / images
    chance = SIGMAS * math.sqrt(expected * (1 - expected) / images) + SLACK
    if abs(measured - expected) <= chance:
        return None
    if measured > expected:
        cause = "other weights than the paper's? (augreg2 gives about 55 on ImageNet-C-5 where augreg gives 51.0)"
    elif any(value != 0.5 for value in mean):
        cause = f"normalisation? The paper's ViTs want mean = std = 0.5, this model uses mean {mean}"
    else:
        cause = "normalisation (ImageNet's mean and std give about 29.9 on ImageNet-C-5), labels, or other images?"
    return (
        f"Source scores {100 * measured:.1f} % on the first {images} images of {task}, "
        f"the paper {100 * expected:.1f} %: {cause}"
    )
