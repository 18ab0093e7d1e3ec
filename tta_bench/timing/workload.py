"""What is timed: the first batches of a suite's first task, for every requested method."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tta_bench import settings
from tta_bench.errors import UserError
from tta_bench.isolation.adapter import read, source_batches, source_labels
from tta_bench.isolation.host import Work
from tta_bench.measure.baseline import Identity
from tta_bench.models.names import findable
from tta_bench.runs.bind import Binder
from tta_bench.runs.found import model_name
from tta_bench.runs.options import RunOptions
from tta_bench.runs.spec import specs
from tta_bench.suites import suite
from tta_bench.timing.steps import Workload

REFERENCE = "source"


@dataclass(frozen=True)
class Spec:
    """The choices that define a workload; a baseline stores them, so that a check can repeat them."""

    suite: str = suite.SMALL
    methods: tuple[str, ...] = ()  # empty: those of the suite
    model: str | None = None
    batch_size: int | None = None
    batches: int = 4
    threads: int = 1  # with one, a busy neighbour slows a method and Source alike
    device: str = "auto"
    set: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bench:
    """A workload, and its identity in a baseline."""

    workload: Workload
    identity: Identity
    settings: dict[str, dict[str, Any]]  # by label
    first: Work  # of Source: knows how its images are read


def prepare(spec: Spec, data_root: Path | None = None) -> Bench:
    """Check the choices and read the batches. Source is always included: the others are measured against it."""
    chosen = suite.load(spec.suite)
    asked = spec.methods or tuple(chosen.methods)
    options = RunOptions(
        methods=(REFERENCE, *(name for name in asked if name != REFERENCE)),
        model=spec.model,
        seeds=(0,),
        limit=spec.batches * (spec.batch_size or chosen.batch_size),
        batch_size=spec.batch_size,
        tasks=chosen.tasks[:1],
        set=spec.set,
        data_root=data_root,
        readers=0,
        device=spec.device,
    )
    binder = Binder(options.site)
    requests = specs(chosen, options)
    works = [binder.bind(request) for request in requests]
    first = works[0]
    batches = list(first.stream.batches(first.cell.spec.batch_size))
    if len(batches) < spec.batches:
        raise UserError(
            f"suite '{chosen.name}' has only {len(batches)} batches in a stream, not {spec.batches} (--batches)"
        )
    with closing(read(first.stream.images, batches, binder.device, 0)) as found:
        images = [batch.clone() for batch in found]
    workload = Workload(
        model=findable(model_name(requests[0], chosen.tasks[0], binder.dataset(requests[0]))),
        num_classes=first.setup.num_classes,
        class_mask=first.setup.class_mask,
        batch_size=first.cell.spec.batch_size,
        device=str(binder.device),
        threads=spec.threads,
        methods={work.cell.spec.label: (work.cell.spec.method, work.cell.found.settings) for work in works},
        batches=images,
        **_source(works),
    )
    identity = _identity(spec, tuple(options.methods), first, chosen.tasks[0])
    return Bench(workload, identity, {work.cell.spec.label: work.cell.found.settings for work in works}, first)


def _source(works: list[Work]) -> dict[str, list[Any]]:
    """Source batches and labels for the methods that need some, as `run` would give them."""
    with_source = next((work for work in works if work.cell.found.source), None)
    if with_source is None or with_source.source_images is None:
        return {"source": [], "source_labels": []}
    images, setup = with_source.source_images, with_source.setup
    batches = [batch.clone() for batch in source_batches(images, setup, 0)]
    return {"source": batches, "source_labels": list(source_labels(images, setup))}


def _identity(spec: Spec, methods: tuple[str, ...], first: Work, task: str) -> Identity:
    return Identity(
        suite=spec.suite,
        task=task,
        model=spec.model,
        batch_size=first.cell.spec.batch_size,
        batches=spec.batches,
        threads=spec.threads,
        device=str(first.setup.device),
        methods=methods,
        set=spec.set,
        weights=first.setup.model.weights_hash,
        stream=first.stream.digest,
        images=len(first.stream.order),
    )


def repeat(identity: Identity, methods: tuple[str, ...] = ()) -> Spec:
    """The choices behind a baseline, for all of its methods or for some."""
    keys = ("suite", "model", "batch_size", "batches", "threads", "device")
    names = methods or identity.methods
    given = tuple(text for text in identity.set if settings.parse([text]).keys() <= {*names})
    return Spec(**{key: getattr(identity, key) for key in keys}, set=given, methods=names)


def refuse_other_workload(then: Identity, now: Identity) -> None:
    """Refuse a baseline of other images or weights: its counts and ratios are not comparable."""
    for key in ("stream", "weights", "task"):
        if (new := getattr(now, key)) != (old := getattr(then, key)):
            raise UserError(
                f"the {key} of suite '{now.suite}' is {new} now, but {old} in the baseline: record it again"
            )
