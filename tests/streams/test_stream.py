"""Every method sees the same images in the same order, whatever else draws random numbers."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
import torch

from tests.support.needed import needed
from tests.support.small import model_for
from tta_bench import build_method
from tta_bench.data.images import ArrayImages, Joined
from tta_bench.errors import UserError
from tta_bench.registry import installed
from tta_bench.streams.orders import DRAWS_PER_CLASS, one_after_the_other
from tta_bench.streams.scenarios import RISE_AND_FALL, SCENARIOS, Gradual, Normal, scenario_of
from tta_bench.streams.stream import Part, Stream, digest, make_stream


def images(n: int = 100, classes: int = 10) -> ArrayImages:
    pixels = np.arange(n, dtype=np.uint8)[:, None, None, None].repeat(3, 1)
    return ArrayImages(pixels, np.arange(n) % classes, [f"image/{i}" for i in range(n)])


def stream(
    scenario: str = "normal", suite: str = "s", seed: int = 0, tasks: tuple[str, ...] = ("fog",), n: int = 100
) -> Stream:
    return make_stream(scenario_of(scenario), suite, seed, [Part(task, images(n)) for task in tasks])


def test_the_order_is_a_shuffle_with_nothing_lost() -> None:
    found = stream()
    assert sorted(found.order) == list(range(100))
    assert list(found.order) != list(range(100))
    assert found.digest == digest([found.images.ids[i] for i in found.order])


def test_the_order_never_changes_between_versions() -> None:
    assert stream(n=8).order.tolist() == [
        2,
        0,
        5,
        7,
        6,
        4,
        3,
        1,
    ]  # recorded: a change would make old records incomparable


@pytest.mark.parametrize("change", [{"suite": "t"}, {"tasks": ("snow",)}, {"seed": 1}, {"scenario": "single"}])
def test_the_order_depends_on_suite_task_seed_and_scenario(change: dict[str, object]) -> None:
    assert stream(**change).digest != stream().digest  # type: ignore[arg-type]


def test_the_order_depends_on_nothing_else() -> None:
    before = stream().digest
    for name in installed().names():
        build_method(name, model_for(name), num_classes=10, params=needed(name))
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    torch.rand(5)
    assert stream().digest == before


def test_a_limit_keeps_the_beginning() -> None:
    whole, part = stream(), make_stream(Normal(), "s", 0, [Part("fog", images())], limit=10)
    assert list(part.order) == list(whole.order[:10])
    assert part.digest != whole.digest


@pytest.mark.parametrize("scenario", ["continual", "mixed"])
def test_a_limit_reaches_every_task(scenario: str) -> None:
    tasks = ("fog", "snow", "frost")
    whole = stream(scenario=scenario, tasks=tasks)
    part = make_stream(scenario_of(scenario), "s", 0, [Part(task, images()) for task in tasks], limit=10)
    assert Counter(part.task_of(part.order)) == {"fog": 10, "snow": 10, "frost": 10}
    seen: Counter[str] = Counter()
    expected = []
    for position, task in zip(whole.order, whole.task_of(whole.order), strict=True):
        seen[task] += 1
        if seen[task] <= 10:
            expected.append(position)
    assert list(part.order) == expected, "the first of each task, in the order of the whole"


def test_a_limited_gradual_stream_still_rises_and_falls() -> None:
    parts = [Part("fog", images(90)) for _ in RISE_AND_FALL]
    part = make_stream(Gradual(), "s", 0, parts, limit=18)
    severity = [RISE_AND_FALL[position // 90] for position in part.order]
    assert len(severity) == 18
    assert list(dict.fromkeys(severity)) == [1, 2, 3, 4, 5]
    assert severity[-1] == 1


@pytest.mark.parametrize(("limit", "is_part"), [(None, False), (99, True), (100, False), (101, False)])
def test_a_limit_that_cuts_nothing_is_no_limit(limit: int | None, is_part: bool) -> None:
    part = make_stream(Normal(), "s", 0, [Part("fog", images())], limit)
    assert part.is_part is is_part
    assert (part.digest == stream().digest) is not is_part


def test_batches_cover_the_stream_and_the_last_may_be_short() -> None:
    assert [len(batch) for batch in stream().batches(32)] == [32, 32, 32, 4]


def test_the_digest_sees_order() -> None:
    assert digest(["a", "b"]) != digest(["b", "a"])


def test_joined_sets_read_as_one() -> None:
    both = Joined([("a", images(5)), ("b", images(7))])
    wanted = np.array([11, 0, 5, 4, 6])
    assert both.read(wanted)[:, 0, 0, 0].tolist() == [6, 0, 0, 4, 1]
    assert [both.ids[i] for i in wanted[:2]] == ["b/image/6", "a/image/0"]
    assert len(both.labels) == 12


def test_continual_keeps_the_tasks_apart() -> None:
    found = stream("continual", tasks=("fog", "snow", "rain"))
    assert found.task_of(found.order).tolist() == ["fog"] * 100 + ["snow"] * 100 + ["rain"] * 100
    assert sorted(found.order) == list(range(300))
    assert list(found.order[:100]) != list(found.order[100:200] - 100), "each task has an order of its own"


def test_mixed_shuffles_all_tasks_together() -> None:
    found = stream("mixed", tasks=("fog", "snow", "rain"))
    assert sorted(found.order) == list(range(300))
    first = found.task_of(found.order[:60]).tolist()
    assert min(first.count(task) for task in ("fog", "snow", "rain")) > 8


def test_gradual_rises_and_falls_and_shows_each_image_once() -> None:
    found = stream("gradual", tasks=("fog",) * len(RISE_AND_FALL), n=90)
    part = found.order // 90
    assert part.tolist() == sorted(part)
    assert np.bincount(part).tolist() == [10] * 9
    assert sorted(found.order % 90) == list(range(90))


def test_label_shift_shows_class_after_class() -> None:
    found = stream("label-shift")
    labels = found.images.labels[found.order]
    assert len(labels) == 10 * DRAWS_PER_CLASS
    steps = labels.reshape(10, -1)
    assert sorted(np.bincount(step).argmax() for step in steps) == list(range(10))
    assert np.mean([np.bincount(step).max() / len(step) for step in steps]) > 0.99
    assert len(set(found.order)) < len(found.order), "drawn with replacement"


@pytest.mark.parametrize("scenario", [name for name, cls in SCENARIOS.items() if not cls().makes_images])
def test_every_scenario_is_a_pure_function(scenario: str) -> None:
    tasks = ("fog", "snow") if SCENARIOS[scenario].joins_tasks else ("fog",)
    assert stream(scenario, tasks=tasks).digest == stream(scenario, tasks=tasks).digest
    assert stream(scenario, tasks=tasks).digest != stream(scenario, seed=1, tasks=tasks).digest


def test_gradual_needs_the_same_images_at_each_severity() -> None:
    with pytest.raises(UserError, match="the same images at each, and there are 10, 4, 10"):
        one_after_the_other([10, 4, 10], ("names",), share=True)
