"""Office-Home: twelve transfers between four domains, and a model for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import trees
from tta_bench.datasets import open_dataset
from tta_bench.datasets.office_home import PAIRS
from tta_bench.errors import UserError


@pytest.mark.parametrize("real", ["Real World", "Real_World", "RealWorld"])
def test_office_home_has_twelve_pairs(tmp_path: Path, real: str) -> None:
    trees.office_home(tmp_path, real=real)
    data = trees.partial("office-home", tmp_path)
    assert len(data.tasks()) == 12 == len(set(data.tasks()))
    assert all(source != target for source, target in PAIRS.values())
    images = data.open("Clipart-to-RealWorld")  # the images of the target
    assert images.ids[0] == "RealWorld/Alarm_Clock/00001.jpg"
    assert list(images.labels) == [0] * 4 + [1] * 4 + [2] * 4
    assert data.source_images("Clipart-to-RealWorld").ids[0] == "Clipart/Alarm_Clock/00001.jpg"
    assert trees.everything(images).shape == (12, 3, 224, 224)
    assert data.num_classes == 3


def test_office_home_models_by_source_domain(tmp_path: Path) -> None:
    data = trees.partial("office-home", tmp_path / "data")
    with pytest.raises(UserError, match="no source model for Art in .*tta-bench train-source office-home --domain Art"):
        data.model_for("Art-to-Product")
    for place in (Path("results/models"), tmp_path / "data" / "models"):  # beside the data comes first
        place.mkdir(parents=True)
        (place / "office-home-Art.safetensors").touch()
        assert data.model_for("Art-to-Product") == str(place / "office-home-Art.safetensors")


def test_office_home_names_what_is_missing(tmp_path: Path) -> None:
    home = trees.office_home(tmp_path)
    whole = open_dataset({"kind": "office-home"}, (), tmp_path)
    (home / "Art" / "TV" / "00001.jpg").unlink()
    (home / "Art" / "TV").rmdir()
    with pytest.raises(UserError, match="Art: 2 classes, expected 65: TV missing"):
        whole.open("Clipart-to-Art")
    for i in range(63):
        trees.write(home / "Clipart" / f"Extra_{i}" / "00001.jpg")
    with pytest.raises(UserError, match=r"66 classes, expected 65: check Clipart/Extra_0, .* more"):
        whole.open("Clipart-to-Art")
