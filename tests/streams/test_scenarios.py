"""Every scenario on every packaged suite: a pure function from tasks and seed to streams, with labels as promised."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.support.cli import Cli
from tta_bench.data.images import ArrayImages, ImageSet
from tta_bench.datasets import open_dataset
from tta_bench.errors import UserError
from tta_bench.streams.orders import DRAWS_PER_CLASS
from tta_bench.streams.scenarios import RISE_AND_FALL, SCENARIOS, scenario_of
from tta_bench.streams.stream import Part, Stream, make_stream
from tta_bench.suites import suite as suites
from tta_bench.suites.suite import Suite

CLASSES, EACH = 12, 15
COUNT = CLASSES * EACH
OF_TASKS = [name for name, cls in SCENARIOS.items() if not cls().makes_images]  # the others: tests/streams/test_ccc.py

# Of the first stream with seed 0. Recorded: a change would make old records incomparable.
DIGESTS: dict[tuple[str, str], str] = {
    ("digits-c-5", "normal"): "1b2708fb4c890f03",
    ("digits-c-5", "single"): "ce8f390cdeffdc78",
    ("digits-c-5", "label-shift"): "91ed2209be6ea253",
    ("digits-c-5", "gradual"): "dd61e80f57cb9d96",
    ("digits-c-5", "continual"): "4ae21cbe1da5cba7",
    ("digits-c-5", "mixed"): "4abbc43d9f71ba53",
    ("imagenet-c-5", "normal"): "2ddcbc61be1244c3",
    ("imagenet-c-5", "single"): "ac5cfedd8dee4a9f",
    ("imagenet-c-5", "label-shift"): "040e06efa7314edb",
    ("imagenet-c-5", "gradual"): "c939008a01a7fa6c",
    ("imagenet-c-5", "continual"): "29f98a666473344d",
    ("imagenet-c-5", "mixed"): "303eb9d78a4fc81e",
}


@cache
def fake(task: str, severity: int | None) -> ImageSet:
    """Fake images of a task: names and labels, equally many of each class."""
    labels = np.arange(COUNT) // EACH
    ids = [f"{task}/{severity or 5}/{label:02d}/{i:03d}" for i, label in enumerate(labels)]
    return ArrayImages(np.zeros((COUNT, 3, 1, 1), np.uint8), labels, ids)


def streams(suite: Suite, scenario: str, seed: int = 0, **more: float) -> list[Stream]:
    how = scenario_of(scenario, more)
    parts = [
        [Part(task, fake(task, level)) for task in tasks for level in how.severities]
        for tasks in how.groups(suite.tasks)
    ]
    return [make_stream(how, suite.name, seed, part) for part in parts]


def labels(stream: Stream) -> np.ndarray:  # type: ignore[type-arg]
    return stream.images.labels[stream.order]


def seen(stream: Stream) -> list[str]:
    return [stream.images.ids[i] for i in stream.order]


def runs(found: np.ndarray) -> float:  # type: ignore[type-arg]
    """How many images of one class follow each other, on average."""
    return len(found) / (1 + np.count_nonzero(np.diff(found)))


@pytest.fixture(params=suites.names())
def suite(request: pytest.FixtureRequest) -> Suite:
    return suites.load(request.param)


@pytest.mark.parametrize(("name", "scenario"), DIGESTS, ids=" ".join)
def test_orders_never_change_between_versions(name: str, scenario: str) -> None:
    assert streams(suites.load(name), scenario)[0].digest == DIGESTS[name, scenario]


@pytest.mark.parametrize("scenario", OF_TASKS)
def test_pure(suite: Suite, scenario: str) -> None:
    first, again, other = ([s.digest for s in streams(suite, scenario, seed)] for seed in (0, 0, 1))
    assert len(first) == (1 if SCENARIOS[scenario].joins_tasks else len(suite.tasks))
    assert first == again
    assert not set(first) & set(other), "another seed, another order"
    assert len(set(first)) == len(first), "each task has an order of its own"


@pytest.mark.parametrize("scenario", [name for name in OF_TASKS if name != "label-shift"])
def test_every_image_comes_once(suite: Suite, scenario: str) -> None:
    for stream in streams(suite, scenario):
        tasks = len(suite.tasks) if SCENARIOS[scenario].joins_tasks else 1
        assert len(stream.order) == tasks * COUNT
        assert len(set(seen(stream))) == len(stream.order)
        assert np.bincount(labels(stream)).tolist() == [tasks * EACH] * CLASSES
        if scenario != "gradual":
            assert sorted(stream.order) == list(range(tasks * COUNT))


@pytest.mark.parametrize("scenario", ["normal", "single"])
def test_classes_are_shuffled(suite: Suite, scenario: str) -> None:
    for stream in streams(suite, scenario):
        assert runs(labels(stream)) < 1.25  # 12 classes at random: 1.09
        assert [len(batch) for batch in stream.batches(1)] == [1] * COUNT
    assert streams(suite, "single")[0].digest != streams(suite, "normal")[0].digest


def test_continual_streams_task_by_task(suite: Suite) -> None:
    (stream,) = streams(suite, "continual")
    assert stream.task_of(stream.order).tolist() == [task for task in suite.tasks for _ in range(COUNT)]
    for start in range(0, len(stream.order), COUNT):
        assert runs(labels(stream)[start : start + COUNT]) < 1.25


def test_mixed_has_several_tasks_in_every_batch(suite: Suite) -> None:
    (stream,) = streams(suite, "mixed")
    wanted = min(len(suite.tasks), 3)
    for batch in stream.batches(64):
        if len(batch) == 64:  # the last may be short
            assert len(set(stream.task_of(batch))) >= wanted
    assert runs(labels(stream)) < 1.25


def test_gradual_rises_and_falls_without_repeating_images(suite: Suite) -> None:
    for stream, task in zip(streams(suite, "gradual"), suite.tasks, strict=True):
        severities = [int(name.split("/")[-3]) for name in seen(stream)]
        assert severities == [severity for severity in RISE_AND_FALL for _ in range(COUNT // len(RISE_AND_FALL))]
        assert len({name.rpartition("/")[2] for name in seen(stream)}) == COUNT, "no image at two severities"
        assert set(stream.tasks) == {task}


@pytest.mark.parametrize(("imbalance", "least", "most"), [(500_000, 50, 101), (100, 4, 12), (1, 1, 1.25)])
def test_label_shift_has_runs_as_long_as_its_ratio_says(
    suite: Suite, imbalance: float, least: float, most: float
) -> None:
    for stream in streams(suite, "label-shift", imbalance=imbalance):
        found = labels(stream)
        assert len(found) == CLASSES * DRAWS_PER_CLASS
        assert least <= runs(found) <= most
        # Over the whole stream no class is preferred, whatever the ratio.
        assert np.abs(np.bincount(found, minlength=CLASSES) / DRAWS_PER_CLASS - 1).max() < 0.4


def test_gradual_is_refused_without_severities(suite: Suite) -> None:
    data = open_dataset(suite.data, suite.tasks, None)
    if "severity" in suite.data:
        assert type(data.at_severity(1)) is type(data)
    else:
        with pytest.raises(UserError, match="--scenario gradual requires data with severities"):
            data.at_severity(1)


def test_single_has_batches_of_one(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    words = ("run", "--suite", small_suite, "--methods", "source", "--scenario", "single", "--out", tmp_path / "run")
    status, _, err = cli(*words, "--batch-size", 4)
    assert (status, err.count("\n")) == (2, 1)
    assert "--scenario single requires batches of 1, got 4" in err
    assert cli(*words, "--limit", 3)[0] == 0
    records = [json.loads(file.read_text()) for file in (tmp_path / "run" / "cells").glob("*.json")]
    assert [(r["cell"]["batch_size"], r["samples"], len(r["batch_seconds"])) for r in records] == [(1, 3, 3)] * 2
