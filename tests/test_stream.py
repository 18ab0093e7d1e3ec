"""Every method sees the same images in the same order, whatever else draws random numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from tta_bench import build_method, models
from tta_bench.registry import installed
from tta_bench.stream import digest, make_stream

IDS = [f"image/{i}" for i in range(100)]


def test_the_order_is_a_shuffle_with_nothing_lost() -> None:
    stream = make_stream("s", "fog", 0, IDS)
    assert sorted(stream.order) == list(range(100))
    assert list(stream.order) != list(range(100))
    assert stream.digest == digest([IDS[i] for i in stream.order])


def test_the_order_never_changes_between_versions() -> None:
    # Recorded once: a change here would silently unmatch old and new records.
    assert list(make_stream("s", "fog", 0, IDS[:8]).order) == RECORDED


RECORDED = [2, 0, 5, 7, 6, 4, 3, 1]


@pytest.mark.parametrize(
    "other",
    [("t", "fog", 0, "normal"), ("s", "snow", 0, "normal"), ("s", "fog", 1, "normal"), ("s", "fog", 0, "mixed")],
)
def test_the_order_depends_on_suite_task_seed_and_scenario(other: tuple[str, str, int, str]) -> None:
    suite, task, seed, scenario = other
    assert make_stream(suite, task, seed, IDS, scenario=scenario).digest != make_stream("s", "fog", 0, IDS).digest


def test_the_order_depends_on_nothing_else() -> None:
    before = make_stream("s", "fog", 0, IDS).digest
    model = models.load("digits-vit")
    for name in installed().names():
        build_method(name, model.fresh(torch.device("cpu")), num_classes=10)
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    torch.rand(5)
    assert make_stream("s", "fog", 0, IDS).digest == before


def test_a_limit_takes_the_beginning() -> None:
    whole, part = make_stream("s", "fog", 0, IDS), make_stream("s", "fog", 0, IDS, limit=10)
    assert list(part.order) == list(whole.order[:10])
    assert part.digest != whole.digest


def test_batches_cover_the_stream_and_the_last_may_be_short() -> None:
    sizes = [len(batch) for batch in make_stream("s", "fog", 0, IDS).batches(32)]
    assert sizes == [32, 32, 32, 4]


def test_the_digest_sees_order() -> None:
    assert digest(["a", "b"]) != digest(["b", "a"])
