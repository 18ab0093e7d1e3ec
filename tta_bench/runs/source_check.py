"""Checks before a long run that Source scores what is published for these weights.

A suite that reproduces a paper compares with the paper's row. Any other compares with the accuracy on clean images that
the model's authors state, if the data has these images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tta_bench.errors import CellFailed, RunStopped, UserError, reason
from tta_bench.isolation.host import Work
from tta_bench.models import published
from tta_bench.models.published import PublishedModel
from tta_bench.papers.baseline import BASELINE, is_anothers, judge, may_be_chance, other_weights, source_row
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder, OnCache
from tta_bench.runs.execute import run_at
from tta_bench.runs.watcher import Watcher
from tta_bench.streams.scenarios import protocol, scenario_of
from tta_bench.streams.stream import Part, make_stream

IMAGES = 1024


def warn(specs: Sequence[CellSpec], binder: Binder, store: Store, watcher: Watcher) -> None:
    """Save a warning for all weights with which Source is far from what is published, and remove old ones."""
    warnings = suspicions(specs, binder, watcher)
    if warnings:
        store.note_warnings(warnings)
    for warning in filter(None, warnings.values()):
        watcher.on_warning(warning)


def suspicions(specs: Sequence[CellSpec], binder: Binder, watcher: Watcher | None = None) -> dict[str, str]:
    """Warnings by the hash of weights: a sentence if Source is far from what is published, empty if it is not.

    Each model is tried on the first images of its first task in the order of `normal`: other scenarios start with few
    classes or a low severity. A stream that a limit cut short can raise a warning, but not clear one. If Source fails,
    the watcher hears of it, and nothing is found.
    """
    first: dict[str, CellSpec] = {}  # of each model
    for spec in specs:
        if spec.paper or _published(spec):
            first.setdefault(binder.model(spec).weights_hash, spec)
    found = {}
    for weights, spec in first.items():
        try:
            warning = (_by_paper if spec.paper else _by_clean_images)(spec, binder, (watcher or Watcher()).on_cache)
        except CellFailed as error:
            (watcher or Watcher()).on_warning(f"Source was not compared with what is published, it failed: {error}")
            continue
        if warning or (warning is not None and not binder.stream(spec).is_part):
            found[weights] = warning
    return found


def _by_paper(spec: CellSpec, binder: Binder, on_cache: OnCache) -> str | None:
    """The verdict by the paper's row for the first task: a warning, or empty; None if the paper has no such row."""
    expected = source_row(spec.paper, spec.suite, spec.tasks[0])
    if expected is None or protocol(spec).makes_images or is_anothers(spec.suite, spec.data.get("kind"), spec.tasks):
        return None
    if other_weights(expected.table, binder.model(spec).name):  # not comparable, as `report --paper` says
        return ""
    hits, images = _score(_source_work(spec, binder, on_cache), binder)
    return judge(spec.tasks[0], hits, images, expected, binder.model(spec).mean) or ""


def _by_clean_images(spec: CellSpec, binder: Binder, on_cache: OnCache) -> str | None:
    """The verdict by the model's published accuracy on clean images; None if one of the two is missing."""
    model, dataset = binder.model(spec), binder.sized(spec)
    expected = next((row.clean for row in _published(spec) if row.classes == model.num_classes), None)
    try:
        clean = dataset.originals(spec.tasks[0])
    except UserError:  # the user provides them, and has not
        return None
    if expected is None or clean is None:
        return None
    work = _source_work(spec, binder, on_cache)
    stream = make_stream(scenario_of("normal"), spec.suite, 0, [Part("clean", clean)], len(work.stream.order))
    hits, images = _score(replace(work, stream=stream), binder)
    if may_be_chance(hits / images, expected / 100, images):
        return ""
    return (
        f"Source scores {100 * hits / images:.1f} % on {images} clean images, {expected:.1f} % is published for "
        f"{model.name}: other weights, or clean images in another order than the labels?"
    )


def _published(spec: CellSpec) -> list[PublishedModel]:
    return published.rows(spec.model, str(spec.data["kind"]))


def _source_work(spec: CellSpec, binder: Binder, on_cache: OnCache) -> Work:
    """The unadapted model on the first images of the first task."""
    limit = min(IMAGES, spec.limit or IMAGES)
    plain = replace(spec, method=BASELINE, settings={}, amp=None, compile=False, tf32=False)
    if protocol(spec).makes_images:  # there may be no images of single tasks
        return binder.bind(replace(plain, limit=limit), on_cache)
    first = replace(plain, scenario="normal", scenario_settings={}, tasks=spec.tasks[:1], limit=limit)
    return binder.bind(first, on_cache)


def _score(work: Work, binder: Binder) -> tuple[int, int]:
    """How many images are classified correctly, and the number of images; CellFailed if Source fails."""
    try:
        _, predictions = run_at(work, binder)
    except RunStopped:
        raise
    except Exception as error:  # in this process, it may be any
        raise CellFailed(reason(error)) from error
    return int(predictions.correct.sum()), len(predictions)
