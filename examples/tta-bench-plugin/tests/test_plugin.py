"""What an author should test: that the method keeps its promises, and that data and model are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from tta_bench_plugin.method import LastNorm

from tta_bench.datasets import open_dataset
from tta_bench.models.source import load
from tta_bench.suites import suite
from tta_bench.testing import check_method


def test_the_method_keeps_its_promises() -> None:
    check_method("last-norm")  # as it is installed
    check_method(LastNorm, lr=0.1, momentum=0.0)  # or the class itself


def test_the_suite_opens_with_its_data_and_model() -> None:
    found = suite.load("shapes")
    dataset = open_dataset(found.data, found.tasks, None)
    assert load(found.model).num_classes == dataset.num_classes
    for task in found.tasks:
        images = dataset.open(task)
        assert images.read(np.arange(4)).shape == (4, 3, 32, 32)
        assert np.bincount(images.labels).tolist() == [64] * 4


@pytest.mark.parametrize("task", ["noise", "dim", "tint"])
def test_images_are_the_same_every_time(task: str) -> None:
    first, second = (open_dataset({"kind": "shapes"}, [task], None).open(task) for _ in range(2))
    assert np.array_equal(first.read(np.arange(256)), second.read(np.arange(256)))
