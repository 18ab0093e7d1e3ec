"""The Source tripwire: checks before a long run that Source scores what the paper says for these weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tta_bench.papers.answers import BASELINE, judge, source_row
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder
from tta_bench.runs.execute import run_at
from tta_bench.runs.listing import Watcher
from tta_bench.runs.spec import CellSpec

IMAGES = 1024


def warn(specs: Sequence[CellSpec], place: Binder, store: Store, watcher: Watcher) -> None:
    """Save a warning for all weights with which Source is far from its published row, and remove old ones."""
    warnings = suspicions(specs, place)
    store.note_warnings(warnings)
    for warning in filter(None, warnings.values()):
        watcher.on_warning(warning)


def suspicions(specs: Sequence[CellSpec], place: Binder) -> dict[str, str]:
    """Warnings by the hash of weights: a sentence if Source is far from its published row, empty if it is not.

    Each model is tried on the first images of its first task in the order of `normal`: other scenarios start with few
    classes or a low severity. A stream that a limit cut short can raise a warning, but not clear one.
    """
    found = {}
    for spec in first_of_each_model([spec for spec in specs if spec.paper], place):
        task = spec.tasks[0]
        expected = source_row(spec.paper, spec.suite, task)
        if expected is None:
            continue
        hits, images = _score_source(spec, place)
        model = place.model(spec)
        warning = judge(task, hits, images, expected, model.mean)
        if warning or not place.stream(spec).is_part:
            found[model.weights_hash] = warning or ""
    return found


def first_of_each_model(specs: Sequence[CellSpec], place: Binder) -> list[CellSpec]:
    """The first spec of each model."""
    first: dict[str, CellSpec] = {}
    for spec in specs:
        first.setdefault(place.model(spec).weights_hash, spec)
    return list(first.values())


def _score_source(spec: CellSpec, place: Binder) -> tuple[int, int]:
    """How many of the first images Source classifies correctly, and the number of images."""
    limit = min(IMAGES, spec.limit or IMAGES)
    plain = replace(spec, method=BASELINE, settings={}, amp=None, compile=False)
    work = place.bind(replace(plain, scenario="normal", scenario_settings={}, tasks=spec.tasks[:1], limit=limit))
    _, predictions = run_at(work, place)
    return int(predictions.correct.sum()), len(predictions)
