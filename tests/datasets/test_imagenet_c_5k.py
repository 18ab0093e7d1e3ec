"""The 5,000 listed images: the list as published, in its order, from folders and from tars, and what is missing."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from tests.support import trees
from tta_bench.datasets import imagenet_c_5k, open_dataset
from tta_bench.datasets.imagenet import ranks
from tta_bench.datasets.imagenet_c_5k import listed_ids
from tta_bench.errors import UserError
from tta_bench.papers import paper as papers
from tta_bench.streams.scenarios import scenario_of
from tta_bench.suites import suite as suites


def test_the_list_is_the_published_one() -> None:
    content = (resources.files("tta_bench.datasets") / "imagenet_c_5k.txt").read_bytes()
    assert hashlib.sha256(content).hexdigest() == "d4121626d07722a0126c35b1563042e46a546f1a05ce705f2cdc635896d58574"
    labels = np.array([ranks()[image_id.partition("/")[0]] for image_id in listed_ids()])
    assert len(set(listed_ids())) == 5000
    counts = np.bincount(labels, minlength=1000)
    assert np.flatnonzero(counts == 0).tolist() == [147, 588, 964]
    assert counts.max() == 12


def test_images_come_in_the_order_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.imagenet_c(tmp_path)
    whole = trees.partial("imagenet-c", tmp_path, severity=5).open("fog")
    wanted = [whole.ids[i].split("/", 2)[2] for i in (4, 1)]
    monkeypatch.setattr(imagenet_c_5k, "listed_ids", lambda: (*wanted, "n01440764/gone.JPEG"))
    found = trees.partial("imagenet-c-5k", tmp_path, severity=5).open("fog")
    assert [image_id.split("/", 2)[2] for image_id in found.ids] == wanted
    assert found.labels.tolist() == whole.labels[[4, 1]].tolist()
    assert np.array_equal(found.read(np.array([0])), whole.read(np.array([4])))


def test_missing_images_are_refused(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path)
    with pytest.raises(UserError, match="lacks 5,000 of 5,000 listed images"):
        trees.partial("imagenet-c-5k", tmp_path, severity=5).open("fog")
    with pytest.raises(UserError, match="allow_partial"):
        open_dataset({"kind": "imagenet-c-5k", "severity": 5}, ["fog"], tmp_path).open("fog")


def test_published_tables_name_scenarios_as_records_do() -> None:
    suite = suites.load("imagenet-c-5-5k")
    assert scenario_of(suite.scenario).name == suite.scenario
    for name in papers.names():
        for table in papers.load(name).tables.values():
            assert scenario_of(table.scenario).name == table.scenario
