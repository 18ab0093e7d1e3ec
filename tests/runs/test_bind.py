"""Binding: each task gets its own model and image size, data is listed once, and mistakes show early."""

from __future__ import annotations

import gc
import os
import weakref
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from tests.support import trees
from tests.support.works import read_spec, requests, works
from tta_bench.data.images import ImageSet
from tta_bench.datasets import listing, on_disk
from tta_bench.errors import UserError
from tta_bench.isolation.pool import Workers
from tta_bench.models.source import SourceModel
from tta_bench.records.spec import CellSpec
from tta_bench.runs import bind as binding
from tta_bench.runs.bind import Binder
from tta_bench.runs.site import Site, refuse_unwritable_cache
from tta_bench.streams.scenarios import scenario_of
from tta_bench.streams.unknown import Unlabelled

CIFAR = (
    "name: mine\nabout: a test\nmodel: digits-vit\nbatch_size: 8\ntasks: [fog, snow]\n"
    "data: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}\nmethods: {source: {}}\n"
)
IMAGENET = (
    "name: mine\nabout: a test\nmodel: none\nbatch_size: 2\ntasks: [fog, snow]\n"
    "data: {kind: imagenet-c, severity: 5, allow_partial: true}\nmethods: {source: {}, eata: {}, tent: {}}\n"
)


def test_each_task_has_the_size_of_its_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Binder.model

    def own(self: Binder, spec: CellSpec) -> SourceModel:
        (task,) = spec.tasks
        return replace(real(self, spec), name=task, input_size={"fog": 32, "snow": 48}[task])

    monkeypatch.setattr(Binder, "model", own)
    trees.cifar_c(tmp_path, corruptions=("fog", "snow"))
    (tmp_path / "suite.yaml").write_text(CIFAR)
    found = works(tmp_path / "suite.yaml", Site(data_root=tmp_path, device="cpu"))
    assert [work.stream.images.read(np.array([0])).shape[-1] for work in found] == [32, 48]
    views = [work.cell.data.get("transform") for work in found]
    assert (views[0], views[1]["crop"]) == (None, 48)


def test_a_binder_forgets_the_unknown_images_of_earlier_streams(small_suite: Path) -> None:
    binder, asked = Binder(Site(device="cpu")), requests(small_suite, methods=("source",), scenario="open:0.2")
    for spec in asked:
        binder.bind(spec)
    kept = [images for images, _ in binder._fingerprints.values() if isinstance(images, Unlabelled)]
    assert len(asked) == 2
    assert [part.images for part in binder._last[1]] == kept


def test_folders_are_listed_once_whatever_the_methods_and_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import timm
    from safetensors.torch import save_file

    trees.imagenet_c(tmp_path, ("fog", "snow"))
    trees.clean_imagenet(tmp_path)
    save_file(timm.create_model("test_vit").state_dict(), tmp_path / "vit.safetensors")
    (tmp_path / "suite.yaml").write_text(IMAGENET)
    listed: list[str] = []

    def counting(folder: Path) -> dict[str, list[str]]:
        listed.append(folder.name if folder.name != "5" else folder.parent.name)
        return listing.list_classes(folder)

    monkeypatch.setattr(on_disk, "list_classes", counting)
    model = f"test_vit={tmp_path / 'vit.safetensors'}"
    site = Site(data_root=tmp_path, device="cpu")
    binder = Binder(site)
    for spec in requests(tmp_path / "suite.yaml", model=model, seeds=(0, 1)):
        binder.bind(spec)
    assert sorted(listed) == ["ImageNet-val", "fog", "snow"]


def test_images_that_are_no_longer_kept_are_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "KEPT_SETS", 1)
    trees.cifar_c(tmp_path, corruptions=("fog", "snow"))
    (tmp_path / "suite.yaml").write_text(CIFAR)
    binder = Binder(Site(data_root=tmp_path, device="cpu"))

    def bound(spec: CellSpec) -> weakref.ref[ImageSet]:
        binder.bind(spec)
        return weakref.ref(binder.parts(spec)[0].images)

    walk = {"scenario": scenario_of("ccc", {"length": 128}), "methods": ("source",), "seeds": (0, 1)}
    asked = [*requests(tmp_path / "suite.yaml"), *requests(Path("digits-c-5"), **walk)]
    sets = [bound(spec) for spec in asked]
    gc.collect()
    assert [images() is not None for images in sets] == [False, True, False, True]


def test_a_spec_from_json_binds_to_the_same_cell(small_suite: Path) -> None:
    spec = requests(small_suite, limit=32)[-1]
    site = Site(device="cpu")
    again = Binder(Site(**asdict(site))).bind(read_spec(spec.to_json()))
    assert again.cell == Binder(site).bind(spec).cell


def test_a_cache_that_cannot_be_made_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write anywhere
    with pytest.raises(UserError, match="--cache .*: .* cannot be written"):
        refuse_unwritable_cache(tmp_path / "deep" / "cache")


def test_a_cache_below_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="--cache .*file is a file, expected a folder"):
        refuse_unwritable_cache(tmp_path / "file" / "cache")
    refuse_unwritable_cache(tmp_path / "new" / "cache")


@pytest.mark.parametrize(("limit", "is_cached"), [(None, True), (10, True), (1, False)])
def test_a_short_stream_builds_no_cache_of_all_images(tmp_path: Path, limit: int | None, is_cached: bool) -> None:
    trees.imagenet_c(tmp_path, ("fog",), classes=5)
    (tmp_path / "suite.yaml").write_text(IMAGENET.replace("none", "vit_tiny_patch16_224"))
    (spec,) = requests(tmp_path / "suite.yaml", methods=("source",), tasks=("fog",), limit=limit)
    images = trees.partial("imagenet-c", tmp_path, severity=5).open("fog")
    binder = Binder(Site(data_root=tmp_path, device="cpu", cache=tmp_path / "cache"))
    assert (binder._cached(spec, images, "fog", "fog", binding.ignore) is not images) == is_cached


@pytest.mark.parametrize(
    ("row", "model", "error"),
    [
        (
            "late: {method: sar, frozen_blocks: [99]}",
            "digits-vit",
            "row 'late': method 'sar': frozen_blocks: no",
        ),
        ("fast: {method: tent, speed: 1}", "digits-vit", "row 'fast': method 'tent' has no setting 'speed'"),
        ("sotta: {}", "cifar10-resnet20", "row 'sotta': .* unknown which norms stay frozen"),
        ("tent: {lr: fast}", "digits-vit", "method 'tent': lr: expected"),
    ],
)
def test_an_error_names_its_row(small_suite: Path, row: str, model: str, error: str) -> None:
    text = small_suite.read_text().replace("source: {}, tent: {lr: 1e-3}", f"source: {{}}, t3a: {{}}, {row}")
    small_suite.write_text(text.replace("digits-vit", model))
    with pytest.raises(UserError, match=f"^{error}"):
        Binder(Site(device="cpu")).refuse_unfit(requests(small_suite))


@pytest.mark.parametrize("in_process", [False, True])
def test_a_process_whose_workers_compute_keeps_no_weights(small_suite: Path, in_process: bool) -> None:
    spec = requests(small_suite, methods=("tent",), limit=32)[0]
    site = Site(device="cpu", in_process=in_process)
    binder = Binder(site, Workers())
    binder.refuse_unfit([spec])
    for _ in range(2):
        assert {p.device.type for p in binder.model(spec).network.parameters()} == {"cpu" if in_process else "meta"}
        assert binder.bind(spec).cell == Binder(site).bind(spec).cell
    assert {p.device.type for p in Binder(site).model(spec).network.parameters()} == {"cpu"}
