"""Datasets are read in their published layouts, and what is wrong with them is named."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.transforms as T
from PIL import Image

from tests import trees
from tta_bench.cell import _imports, _source
from tta_bench.datasets import KINDS, Dataset, listing, open_dataset
from tta_bench.datasets import tar as tar_index
from tta_bench.datasets.files import decode
from tta_bench.datasets.imagenet import wnids
from tta_bench.datasets.listing import complaint
from tta_bench.datasets.office_home import PAIRS
from tta_bench.datasets.transform import Transform, photograph
from tta_bench.errors import UserError
from tta_bench.stream import digest


def small(kind: str, root: Path | None, **options: Any) -> Dataset:
    return open_dataset({"kind": kind, "allow_partial": True, **options}, (), root)


def everything(images: Any) -> Any:
    return images.read(np.arange(len(images.ids)))


def imagenet_r(root: Path, classes: int = 200, folder: str = "imagenet-r") -> Dataset:
    return open_dataset({"kind": "class-folders", "folder": folder, "classes": classes, "images": classes}, (), root)


def visda(root: Path, images: int, **options: Any) -> Dataset:
    listed = {"folder": "VisDA-2021", "list": "val_filelists/imagenet_c_r_o_filelist.txt", "images": images}
    return open_dataset({"kind": "file-list", **listed, **options}, (), root)


# Layouts


def test_the_thousand_classes_are_in_the_order_of_logits() -> None:
    assert len(wnids()) == 1000
    assert list(wnids()) == sorted(set(wnids()))
    assert (wnids()[0], wnids()[-1]) == ("n01440764", "n15075141")


@pytest.mark.parametrize("inside", [True, False])
def test_imagenet_c_as_folders(tmp_path: Path, inside: bool) -> None:
    home = trees.imagenet_c(tmp_path, ("fog", "snow"), (3, 5))
    images = small("imagenet-c", tmp_path if inside else home, severity=5).open("fog")
    assert images.ids[0] == "fog/5/n01440764/ILSVRC2012_val_00000001.JPEG"
    assert list(images.labels) == [0, 0, 1, 1, 2, 2]
    pixels = images.read(np.array([4, 0]))
    assert (pixels.shape, pixels.dtype) == ((2, 3, 224, 224), np.uint8)
    with Image.open(home / images.ids[4]) as file:
        assert np.array_equal(pixels[0], np.asarray(file).transpose(2, 0, 1))  # 224 pixels stay as they are


@pytest.mark.parametrize("name", ["fog.tar", "weather.tar"])
@pytest.mark.parametrize("lead", ["fog", "./fog", f"{'a' * 40}/{'b' * 40}/fog"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_gives_the_same_images_as_its_folder(tmp_path: Path, name: str, lead: str, form: int) -> None:
    home = trees.imagenet_c(tmp_path / "folders", ("fog",), (1, 5))
    trees.packed(home / "fog", tmp_path / "tars" / "ImageNet-C" / name, lead, form)
    (unpacked, packed) = (small("imagenet-c", tmp_path / d, severity=5).open("fog") for d in ("folders", "tars"))
    assert digest(unpacked.ids) == digest(packed.ids)
    assert list(unpacked.labels) == list(packed.labels)
    assert np.array_equal(everything(unpacked), everything(packed))
    sent = pickle.loads(pickle.dumps(packed))  # as a worker process gets it
    assert np.array_equal(sent.read(np.array([3])), unpacked.read(np.array([3])))


def test_a_tar_is_scanned_once_until_it_changes(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path / "folders", ("fog",), (1, 5))
    file = trees.packed(home / "fog", tmp_path / "ImageNet-C" / "fog.tar", "fog")
    data = small("imagenet-c", tmp_path, severity=5)
    tar_index._scan.cache_clear()
    data.open("fog")
    data.at_severity(1).open("fog")
    assert tar_index._scan.cache_info().misses == 1
    os.utime(file, (1, 1))
    data.open("fog")
    assert tar_index._scan.cache_info().misses == 2


def test_severities_differ_only_in_their_folder(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path, ("fog",), (1, 5))
    data = small("imagenet-c", tmp_path, severity=5)
    assert data.at_severity(1).open("fog").ids[0].startswith("fog/1/")
    assert data.open("fog").ids[0].startswith("fog/5/")


def test_masks_follow_the_folder_names(tmp_path: Path) -> None:
    r, a = trees.some_wnids(200, 1), wnids()[::5]
    trees.class_folders(tmp_path, "imagenet-r", r)
    trees.class_folders(tmp_path, "imagenet-a", a)
    data, other = imagenet_r(tmp_path), imagenet_r(tmp_path, folder="imagenet-a")
    assert data.tasks() == ("imagenet-r",)
    assert (data.num_classes, data.model_classes) == (200, 1000)
    assert data.class_mask() == tuple(range(1, 201))
    assert other.class_mask() == tuple(range(0, 1000, 5))
    images, mask = other.open("imagenet-a"), other.class_mask() or ()
    assert list(images.labels) == list(range(200))
    for label, image_id in zip(images.labels, images.ids, strict=True):  # label i speaks of the mask's column i
        assert wnids()[mask[label]] == image_id.split("/")[0]
    assert data.inspect("imagenet-r") == "200 classes, 200 images, 3 opened"


def test_a_file_list_with_roots_and_unknown_labels(tmp_path: Path) -> None:
    lines = [("val_data/imagenet_c_and_r/n01443537/a b.jpg", 1), ("val_data/imagenet_c_and_r/n01484850/c.jpg", 2)]
    lines += [("val_data/imagenet_o/n01443537/d.jpg", 1000), ("val_data/imagenet_o/n01443537/e.jpg", 1234)]
    trees.visda(tmp_path, lines)
    images = visda(tmp_path, 4).open("VisDA-2021")
    assert images.ids == [path for path, _ in lines]
    assert list(images.labels) == [1, 2, 1000, 1000]  # 1000: no model says so, always wrong
    assert everything(images).shape == (4, 3, 224, 224)
    chosen = visda(tmp_path, 2, only="imagenet_c_and_r")
    assert list(chosen.open("VisDA-2021").labels) == [1, 2]
    assert chosen.transform == Transform(256, 224, squash=True)


@pytest.mark.parametrize("real", ["Real World", "Real_World", "RealWorld"])
def test_office_home_has_twelve_pairs(tmp_path: Path, real: str) -> None:
    trees.office_home(tmp_path, real=real)
    data = small("office-home", tmp_path)
    assert len(data.tasks()) == 12 == len(set(data.tasks()))
    assert all(source != target for source, target in PAIRS.values())
    images = data.open("Clipart-to-RealWorld")  # the images of the target
    assert images.ids[0] == "RealWorld/Alarm_Clock/00001.jpg"
    assert list(images.labels) == [0] * 4 + [1] * 4 + [2] * 4
    assert data.source_images("Clipart-to-RealWorld").ids[0] == "Clipart/Alarm_Clock/00001.jpg"
    assert everything(images).shape == (12, 3, 224, 224)
    assert data.num_classes == 3


def test_office_home_models_by_source_domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = small("office-home", tmp_path / "data")
    with pytest.raises(UserError, match="no source model of Art in .*tta-bench train-source office-home --domain Art"):
        data.model_for("Art-to-Product")
    for place in (Path("results/models"), tmp_path / "data" / "models"):  # beside the data comes first
        place.mkdir(parents=True)
        (place / "office-home-Art.safetensors").touch()
        assert data.model_for("Art-to-Product") == str(place / "office-home-Art.safetensors")


@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_severities_are_blocks(tmp_path: Path, classes: int) -> None:
    trees.cifar_c(tmp_path, classes)
    data = small("cifar-c", tmp_path, classes=classes, severity=2)
    for severity in (1, 2, 5):
        images = data.at_severity(severity).open("fog")
        pixels = everything(images)
        assert (pixels.shape, pixels.flags.c_contiguous) == ((20, 3, 32, 32), True)
        assert set(pixels[:, 0, 0, 0]) == {severity}
        assert images.ids[7] == f"fog/{severity}/00007"
        assert images.labels[7] == 7
    images = pickle.loads(pickle.dumps(data.open("fog")))
    assert len(pickle.dumps(images)) < 5000  # the file is not in it
    assert data.sized(64).open("fog").read(np.array([1])).shape == (1, 3, 64, 64)


# Clean source images


def test_clean_images_are_asked_for_only_when_needed(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path)
    data = small("imagenet-c", tmp_path, severity=5)
    data.open("fog")
    with pytest.raises(UserError, match=r"put the ImageNet validation images as .*ImageNet-val/<wnid>/\*.JPEG"):
        data.source_images()
    trees.clean_imagenet(tmp_path, "imagenet/val")
    assert data.source_images().ids[0] == "n01440764/ILSVRC2012_val_00000001.JPEG"


def test_clean_images_are_a_fixed_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tta_bench.datasets import on_disk

    monkeypatch.setattr(on_disk.some_of, "__kwdefaults__", {"most": 3})
    trees.clean_imagenet(tmp_path, classes=5)
    first, second = (small("imagenet-c", tmp_path, severity=5).source_images() for _ in range(2))
    assert first.ids == second.ids == sorted(first.ids)
    assert len(first.ids) == 3
    assert everything(first).shape == (3, 3, 224, 224)


def test_with_a_mask_clean_images_are_of_its_classes(tmp_path: Path) -> None:
    trees.clean_imagenet(tmp_path, classes=5)
    trees.class_folders(tmp_path, "imagenet-r", trees.some_wnids(2, 3))
    data = small("class-folders", tmp_path, folder="imagenet-r", classes=200, images=30000)
    assert {image_id.split("/")[0] for image_id in data.source_images().ids} == set(trees.some_wnids(2, 3))


def test_cifar_needs_its_originals(tmp_path: Path) -> None:
    home = trees.cifar_c(tmp_path)
    data = small("cifar-c", tmp_path, classes=10, severity=1)
    with pytest.raises(UserError, match="put the original test images.*original.npy"):
        data.source_images()
    np.save(home / "original.npy", np.zeros((20, 32, 32, 3), np.uint8))
    assert len(data.source_images().ids) == 20


# Transforms


@pytest.mark.parametrize("size", [(300, 400), (401, 299), (100, 50), (1, 1), (224, 224), (33, 257)])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_transforms_are_torchvisions(size: tuple[int, int], interpolation: str) -> None:
    picture = trees.picture(1, size)
    mode = T.InterpolationMode(interpolation)
    theirs = T.Compose([T.Resize(256, mode), T.CenterCrop(224)])
    assert np.array_equal(photograph(224, interpolation)(picture), np.asarray(theirs(picture)).transpose(2, 0, 1))
    squashed = T.Compose([T.Resize((256, 256), mode), T.CenterCrop(224)])
    ours = Transform(256, 224, squash=True, interpolation=interpolation)
    assert np.array_equal(ours(picture), np.asarray(squashed(picture)).transpose(2, 0, 1))


def test_the_middle_is_cut_out() -> None:
    columns = np.repeat(np.arange(8, dtype=np.uint8)[None, :, None], 4, axis=0).repeat(3, axis=2)
    found = Transform(4, 4)(Image.fromarray(columns))
    assert found[0].tolist() == [[2, 3, 4, 5]] * 4


def test_a_model_of_another_size_gets_its_size(tmp_path: Path) -> None:
    trees.imagenet_c(tmp_path)
    data = small("imagenet-c", tmp_path, severity=5)
    larger = data.sized(384, "bicubic")
    assert data.transform == Transform(224, 224)
    assert larger.transform == Transform(384, 384, interpolation="bicubic")
    assert larger.open("fog").read(np.array([0])).shape == (1, 3, 384, 384)
    assert photograph(384).resize == 439
    assert photograph(224).describe() == {"resize": 256, "crop": 224, "squash": False, "interpolation": "bilinear"}


@pytest.mark.parametrize("wrong", [{"resize": 10, "crop": 20}, {"resize": 10, "crop": 10, "interpolation": "cubic"}])
def test_impossible_transforms_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="too few to cut 20 from|interpolation: expected one of"):
        Transform(**wrong)


# Images that are unusual, and files that are bad


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "1", "LA", "I;16"])
def test_unusual_images_become_rgb(mode: str) -> None:
    file = io.BytesIO()
    grey = trees.picture(3).convert("L")
    if mode == "I;16":
        Image.fromarray(np.asarray(grey).astype(np.uint16)).save(file, "PNG")
    elif mode == "P":
        grey.convert("P").save(file, "PNG", transparency=bytes([0, 128, 255]))
    else:
        grey.convert(mode).save(file, "TIFF" if mode == "CMYK" else "PNG")
    file.seek(0)
    assert decode(file, "x", photograph(224)).shape == (3, 224, 224)


def test_a_cmyk_jpeg_and_a_single_pixel(tmp_path: Path) -> None:
    trees.picture(3).convert("CMYK").save(tmp_path / "cmyk.jpg")
    colour = Image.new("RGB", (1, 1), (10, 200, 30))
    colour.save(tmp_path / "pixel.png")
    assert decode(tmp_path / "cmyk.jpg", "x", photograph(224)).shape == (3, 224, 224)
    assert set(decode(tmp_path / "pixel.png", "x", photograph(224)).reshape(3, -1).T.ravel()) == {10, 200, 30}


def broken(path: Path, how: str) -> str:
    """Break an image file; returns what is said about it."""
    content = path.read_bytes()
    path.unlink()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
        return "cannot be read as an image .*truncated"
    if how == "no image":
        path.write_text("<html>404</html>")
        return "is no image"
    if how == "empty":
        path.touch()
        return "is no image"
    if how == "a folder":
        path.mkdir()
        return "expected an image file"
    path.symlink_to(path.name if how == "loop" else "nowhere.JPEG")
    return "a link that cannot be followed"


@pytest.mark.parametrize("how", ["truncated", "no image", "empty", "a folder", "loop", "dangling"])
def test_a_bad_file_is_named(tmp_path: Path, how: str) -> None:
    home = trees.imagenet_c(tmp_path, classes=1)
    path = home / "fog" / "5" / "n01440764" / "ILSVRC2012_val_00000002.JPEG"
    said = broken(path, how)
    data = small("imagenet-c", tmp_path, severity=5)
    with pytest.raises(UserError, match=said) as caught:
        data.inspect("fog")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", ["truncated", "no image"])
def test_a_bad_file_in_a_tar_is_named(tmp_path: Path, how: str) -> None:
    home = trees.imagenet_c(tmp_path / "folders", classes=1)
    said = broken(home / "fog" / "5" / "n01440764" / "ILSVRC2012_val_00000002.JPEG", how)
    trees.packed(home / "fog", tmp_path / "ImageNet-C" / "fog.tar", "fog")
    with pytest.raises(UserError, match=rf"val_00000002.JPEG in .*fog.tar: {said}"):
        small("imagenet-c", tmp_path, severity=5).inspect("fog")


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trees.write(tmp_path / "a.jpg")

    def denied(*words: Any) -> None:  # root may read anything, so the refusal is played
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Image, "open", denied)
    with pytest.raises(UserError, match=r"a.jpg: cannot be read as an image \(Permission denied\)"):
        decode(path, path, photograph(224))


def test_an_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.imagenet_c(tmp_path)

    def denied(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(listing.os, "scandir", denied)
    with pytest.raises(UserError, match=r"folder .*fog/5 cannot be listed \(Permission denied\)"):
        small("imagenet-c", tmp_path, severity=5).open("fog")


def test_a_sample_may_be_all(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path, classes=10)
    data = small("imagenet-c", tmp_path, severity=5)
    assert data.inspect("fog", sample=None).startswith("10 classes, 20 images, 20 opened (allow_partial")
    broken(home / "fog" / "5" / wnids()[7] / "ILSVRC2012_val_00000015.JPEG", "truncated")
    with pytest.raises(UserError, match="val_00000015.JPEG"):
        data.inspect("fog", sample=None)


@pytest.mark.parametrize("cut", [700, -3000])
def test_a_cut_off_tar_is_named(tmp_path: Path, cut: int) -> None:
    home = trees.imagenet_c(tmp_path / "folders", classes=1)
    file = trees.packed(home / "fog", tmp_path / "ImageNet-C" / "fog.tar", "fog")
    last = max(tar_index.index(file)["fog", 5].offsets)
    file.write_bytes(file.read_bytes()[: cut if cut > 0 else last + 50])
    with pytest.raises(UserError, match=r"fog.tar: (is cut off|no readable|has no)"):
        small("imagenet-c", tmp_path, severity=5).open("fog")


def test_what_is_no_tar_is_named(tmp_path: Path) -> None:
    (tmp_path / "fog.tar").write_bytes(b"x" * 2000)
    with pytest.raises(UserError, match="fog.tar: no readable uncompressed tar"):
        small("imagenet-c", tmp_path, severity=5).open("fog")


# Sets that are not whole


def test_999_classes_name_the_missing_one() -> None:
    found = {wnid: ["a"] * 50 for wnid in wnids()[1:]}
    assert complaint(found, (1000, 50_000), names=wnids()) == "999 classes, expected 1000: n01440764 missing"
    found = {wnid: ["a"] * 50 for wnid in wnids()}
    assert complaint(found, (1000, 50_000), names=wnids(), even=True) is None
    found[wnids()[5]].pop()
    said = complaint(found, (1000, 50_000), names=wnids(), even=True)
    assert said == "49,999 images, expected 50,000: 50 in each class, but not in n01496331 (49)"
    found[wnids()[6]] = ["a"] * 51  # the sum is right again
    assert "n01496331 (49), n01498041 (51)" in str(complaint(found, (1000, 50_000), even=True))


def test_a_partial_tree_is_refused_unless_allowed(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    data = open_dataset({"kind": "imagenet-c", "severity": 5}, ["fog"], tmp_path)
    for look in (data.open, data.inspect):
        with pytest.raises(UserError, match="fog/5: 3 classes, expected 1000: .* and 994 more missing .*allow_partial"):
            look("fog")
    (home / "fog" / "5" / "n01440764" / "notes.txt").write_text("passed over")
    assert small("imagenet-c", tmp_path, severity=5).inspect("fog").startswith("3 classes, 6 images")


def test_an_empty_class_folder_is_named(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    (home / "fog" / "5" / wnids()[9]).mkdir()
    with pytest.raises(UserError, match=f"class folder .*fog/5/{wnids()[9]} is empty"):
        small("imagenet-c", tmp_path, severity=5).inspect("fog")


def test_folders_that_are_no_class_are_named(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    trees.write(home / "fog" / "5" / "n99999999" / "a.JPEG")
    with pytest.raises(UserError, match="'n99999999' is no ImageNet class"):
        small("imagenet-c", tmp_path, severity=5).open("fog")


def test_a_folder_link_to_itself_is_named(tmp_path: Path) -> None:
    home = trees.imagenet_c(tmp_path)
    (home / "fog" / "5" / wnids()[9]).symlink_to(wnids()[9])
    with pytest.raises(UserError, match=f"{wnids()[9]}: a link that cannot be followed"):
        small("imagenet-c", tmp_path, severity=5).open("fog")
    (home / "fog" / "5" / wnids()[9]).unlink()
    (home / "fog" / "5" / wnids()[0] / "up").symlink_to("..")  # listing goes one level down, so it comes to an end
    assert len(small("imagenet-c", tmp_path, severity=5).open("fog").ids) == 6


def test_missing_classes_of_imagenet_r_and_wrong_counts(tmp_path: Path) -> None:
    trees.class_folders(tmp_path, "imagenet-r", trees.some_wnids(4))
    for look in (lambda d: d.class_mask(), lambda d: d.inspect("imagenet-r")):
        with pytest.raises(UserError, match="imagenet-r: 4 classes, expected 5"):
            look(imagenet_r(tmp_path, 5))
    trees.write(tmp_path / "imagenet-r" / wnids()[0] / "more.jpg")
    with pytest.raises(UserError, match="imagenet-r: 5 images, expected 4"):
        imagenet_r(tmp_path, 4).open("imagenet-r")


def test_office_home_names_what_is_missing(tmp_path: Path) -> None:
    home = trees.office_home(tmp_path)
    whole = open_dataset({"kind": "office-home"}, (), tmp_path)
    (home / "Art" / "TV" / "00001.jpg").unlink()
    (home / "Art" / "TV").rmdir()
    with pytest.raises(UserError, match="Art: 2 classes, expected 65: TV missing"):
        whole.open("Clipart-to-Art")
    for i in range(63):
        trees.write(home / "Clipart" / f"Extra_{i}" / "00001.jpg")
    with pytest.raises(UserError, match=r"66 classes, expected 65: look at Clipart/Extra_0, .* more"):
        whole.open("Clipart-to-Art")


def test_file_lists_name_bad_lines_and_missing_files(tmp_path: Path) -> None:
    home = trees.visda(tmp_path, [("val_data/a.jpg", 1), ("val_data/b.jpg", 2)], missing=["val_data/b.jpg"])
    with pytest.raises(UserError, match="1 of 2 files in .*filelist.txt are missing: val_data/b.jpg"):
        visda(tmp_path, 2).open("VisDA-2021")
    with pytest.raises(UserError, match="filelist.txt: 2 lines, expected 17,304"):
        visda(tmp_path, 17304).open("VisDA-2021")
    with pytest.raises(UserError, match="has no line with the folder 'objectnet'"):
        visda(tmp_path, 2, only="objectnet").open("VisDA-2021")
    file = home / "val_filelists" / "imagenet_c_r_o_filelist.txt"
    for line in ("val_data/a.jpg", "val_data/a.jpg -1", "val_data/a.jpg cat"):
        file.write_text(f"val_data/a.jpg 1\n{line}\n")
        with pytest.raises(UserError, match="line 2: expected 'path label', got"):
            visda(tmp_path, 2).open("VisDA-2021")


def test_bad_arrays_are_named(tmp_path: Path) -> None:
    home = trees.cifar_c(tmp_path)
    data = small("cifar-c", tmp_path, classes=10, severity=1)
    with pytest.raises(UserError, match=r"snow.npy is missing"):
        data.open("snow")
    with pytest.raises(UserError, match="fog.npy: 100 images, expected 50,000"):
        open_dataset({"kind": "cifar-c", "classes": 10, "severity": 1}, ["fog"], tmp_path).open("fog")
    np.save(home / "snow.npy", np.zeros((100, 32, 32), np.float32))
    with pytest.raises(UserError, match=r"snow.npy: expected bytes of shape \(N, 32, 32, 3\), got float32"):
        data.open("snow")
    np.save(home / "frost.npy", np.zeros((90, 32, 32, 3), np.uint8))
    with pytest.raises(UserError, match="frost.npy: 90 images, but labels.npy has 100"):
        data.open("frost")
    (home / "fog.npy").write_bytes((home / "fog.npy").read_bytes()[:3000])
    with pytest.raises(UserError, match="fog.npy: no readable array"):
        data.open("fog")
    np.save(home / "labels.npy", np.full(100, 10))
    with pytest.raises(UserError, match="labels.npy: expected a row of labels from 0 to 9"):
        data.open("fog")


def test_the_code_of_one_kind_leaves_the_cells_of_the_others_valid() -> None:
    for kind, cls in KINDS.items():
        found, waiting = set(), [cls.code]
        while waiting:
            name = waiting.pop()
            path = _source(name)
            if name not in found and path is not None:
                found.add(name)
                waiting += _imports(path.read_text(), name, "tta_bench")
        assert not found & ({other.__module__ for other in KINDS.values()} - {cls.__module__}), kind
        assert "tta_bench.datasets" not in found


# Data roots and options

EVERY_KIND: list[dict[str, Any]] = [
    {"kind": "imagenet-c", "severity": 5},
    {"kind": "class-folders", "folder": "imagenet-r", "classes": 200, "images": 30000},
    {"kind": "file-list", "folder": "VisDA-2021", "list": "val.txt", "images": 17304},
    {"kind": "office-home"},
    {"kind": "cifar-c", "classes": 10, "severity": 5},
]


@pytest.mark.parametrize("config", EVERY_KIND, ids=lambda config: config["kind"])
def test_a_data_root_is_asked_for_in_one_line(config: dict[str, Any], tmp_path: Path) -> None:
    task = open_dataset(config, (), None).tasks()[0]
    for root, said in (
        (None, "this suite needs --data-root DIR with "),
        (tmp_path / "none", "none is no folder: expected one with "),
        (tmp_path, "nothing for this suite in --data-root .*: expected "),
    ):
        for look in (Dataset.open, Dataset.inspect):
            with pytest.raises(UserError, match=said) as caught:
                getattr(open_dataset(config, [task], root), look.__name__)(task)
            assert "\n" not in str(caught.value)
    published = open_dataset(config, (), None).published(task)
    assert published is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"severity": 6}, "data: severity: expected 1 to 5, got 6"),
        ({"severity": True}, "data: severity: expected 1 to 5, got True"),
        ({"allow_partial": "yes"}, "data: allow_partial: expected true or false"),
        ({"allow_partal": True}, "has no option 'allow_partal'; did you mean 'allow_partial'"),
        ({"kind": "class-folders"}, "kind 'class-folders' has no option 'severity'"),
        ({"kind": "cifar-c", "classes": 20}, "data: classes: expected 10 or 100, got 20"),
    ],
)
def test_wrong_options_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        open_dataset({"kind": "imagenet-c", "severity": 5, **change}, (), None)


# Speed


def test_a_full_check_takes_seconds(tmp_path: Path) -> None:
    """150 of the 15,000 folders of ImageNet-C at one severity, 50 files each: a hundredth of the work, in 100 ms."""
    first = trees.write(tmp_path / "a.JPEG")
    for folder in (tmp_path / "fog" / "5" / wnid for wnid in wnids()[:150]):
        folder.mkdir(parents=True)
        for i in range(50):
            os.link(first, folder / f"{i}.JPEG")
    data = small("imagenet-c", tmp_path, severity=5)

    def once() -> float:
        start = time.perf_counter()
        data.inspect("fog", sample=0)
        return time.perf_counter() - start

    assert min(once() for _ in range(5)) < 0.1


def test_every_kind_can_be_cached_and_read_by_workers(tmp_path: Path) -> None:
    from tta_bench.cache import CachedImages
    from tta_bench.loading import read_ahead

    home = trees.imagenet_c(tmp_path / "folders")
    trees.packed(home / "fog", tmp_path / "tars" / "fog.tar", "fog")
    trees.cifar_c(tmp_path)
    folders, packed = (small("imagenet-c", tmp_path / d, severity=5).open("fog") for d in ("folders", "tars"))
    cifar = small("cifar-c", tmp_path, classes=10, severity=5).sized(40).open("fog")
    for name, images in (("folders", folders), ("tars", packed), ("cifar", cifar)):
        cached: Any = CachedImages(images, tmp_path / "cache", name, workers=0)  # type: ignore[arg-type]
        assert np.array_equal(everything(cached), everything(images))
        plan = [np.array([3, 1]), np.array([0])]
        assert [len(batch) for batch in read_ahead(images, plan, workers=2)] == [2, 1]
