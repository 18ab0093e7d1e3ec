"""The Source tripwire: before hours are spent, see whether Source scores what the paper says for these weights."""

from __future__ import annotations

import math
from contextlib import closing

import torch

from tta_bench.data import loading
from tta_bench.models.source import SourceModel
from tta_bench.papers.published import Published, accuracies, paper_task
from tta_bench.registry import build_method
from tta_bench.run.plan import Plan
from tta_bench.streams.scenarios import Part, make_stream

IMAGES = 1024
SIGMAS, SLACK = 4.0, 0.01
# Tables of the paper without a row of Source: they are about ImageNet-C at severity 5.
SOURCE_IN = {"components": "imagenet-c-5", "tokens": "imagenet-c-5", "cost": "imagenet-c-5"}


def suspicions(plan: Plan) -> dict[str, str]:
    """By the hash of weights: a sentence if Source is far from its published row, an empty one if all seems well.

    Each model is tried on the first images of its first task, drawn as `normal` draws them whatever the scenario:
    others begin with few classes or a mild severity. What only a part of the images cannot tell is left out.
    """
    found = {}
    for task, model in _first_tasks(plan).items():
        published = published_source(plan.suite.paper, task)
        if published is None:
            continue
        hits, images = _score_source(plan, task, model)
        told = judge(task, hits, images, published.accuracy / 100, model.mean)
        if told or plan.limit is None:
            found[model.weights_hash] = told or ""
    return found


def published_source(table: str, task: str) -> Published | None:
    """What the paper says of Source on a task."""
    return accuracies(SOURCE_IN.get(table, table)).get(("source", paper_task(task)))


def _first_tasks(plan: Plan) -> dict[str, SourceModel]:
    """The first task of each model."""
    first: dict[str, str] = {}
    for task, model in plan.models.items():
        first.setdefault(model.weights_hash, task)
    return {task: plan.models[task] for task in first.values()}


def _score_source(plan: Plan, task: str, model: SourceModel) -> tuple[int, int]:
    """How many of the first images Source gets right, and of how many."""
    dataset, images, size = plan.datasets[task], plan.open(task), plan.suite.batch_size
    network = model.fresh(plan.device, dataset.class_mask())
    source = build_method("source", network, num_classes=dataset.num_classes, batch_size=size)
    few = min(IMAGES, plan.limit or IMAGES)
    stream = make_stream("normal", plan.suite.name, plan.suite.seeds[0], [Part(task, images)], few)
    order = list(stream.batches(size))
    workers = loading.default_workers(images) if plan.workers is None else plan.workers
    hits = 0
    with closing(loading.batches(images, order, plan.device, workers=workers)) as batches:
        for indices, batch in zip(order, batches, strict=True):
            found = source.adapt(batch).argmax(1).cpu()
            hits += int((found == torch.from_numpy(images.labels[indices])).sum())
    return hits, len(stream.order)


def judge(task: str, hits: int, images: int, expected: float, mean: tuple[float, ...]) -> str | None:
    """Compare with what is published; a difference beyond chance names its likely cause."""
    measured = hits / images
    chance = SIGMAS * math.sqrt(expected * (1 - expected) / images) + SLACK
    if abs(measured - expected) <= chance:
        return None
    if "-to-" in task:
        cause = "a source model that was trained otherwise than the paper's, labels, or other images?"
    elif measured > expected:
        cause = "other weights than the paper's? (augreg2 gives about 55 on ImageNet-C-5 where augreg gives 51.0)"
    elif any(value != 0.5 for value in mean):
        cause = f"normalisation? The paper's ViTs want mean = std = 0.5, this model uses mean {mean}"
    else:
        cause = "normalisation (ImageNet's mean and std give about 29.9 on ImageNet-C-5), labels, or other images?"
    return (
        f"Source scores {100 * measured:.1f} % on the first {images} images of {task}, "
        f"the paper {100 * expected:.1f} %: {cause}"
    )
