"""The embedded data and its source model are what their notes say."""

from __future__ import annotations

import re
from importlib import resources

import numpy as np
import pytest
import torch

from tta_bench import checkpoint, digits, models
from tta_bench.corruptions import CORRUPTIONS
from tta_bench.images import ImageSet
from tta_bench.train import MEAN, STD, evaluate, jitter, train_digits


def test_the_split_is_fixed_and_disjoint() -> None:
    train, test = digits.clean("train"), digits.clean("test")
    assert (len(train.ids), len(test.ids)) == (900, 897)
    assert not set(train.ids) & set(test.ids)
    assert test.ids[:3] == FIRST_TEST_IDS  # recorded once: another split would unmatch all records
    assert np.bincount(test.labels).min() > 70


FIRST_TEST_IDS = ["digits/0001", "digits/0002", "digits/0003"]


def test_images_are_bytes_in_rgb() -> None:
    images = digits.clean("test").read(np.arange(5))
    assert (images.shape, images.dtype) == ((5, 3, 32, 32), np.uint8)
    assert images.std() > 10


def test_a_corrupted_image_does_not_depend_on_the_others() -> None:
    from tta_bench.corruptions import corrupt

    test, bad = digits.clean("test"), digits.corrupted("gaussian_noise", 5)
    one = test.read(np.array([7]))[0].transpose(1, 2, 0)
    alone = corrupt(one, "gaussian_noise", 5, image_id=test.ids[7], scale="small")
    assert np.array_equal(bad.read(np.array([7]))[0].transpose(1, 2, 0), alone)
    assert bad.ids == test.ids


def note() -> str:
    return (resources.files("tta_bench.checkpoints") / "digits_vit.md").read_text()


def test_the_checkpoint_is_small_and_has_its_note() -> None:
    file = resources.files("tta_bench.checkpoints") / "digits_vit.safetensors"
    assert len(file.read_bytes()) <= 3_000_000
    assert models.load("digits-vit").weights_hash in note()


def network_and_note() -> tuple[torch.nn.Module, checkpoint.Note]:
    with resources.as_file(resources.files("tta_bench.checkpoints") / "digits_vit.safetensors") as path:
        weights, header = checkpoint.load(path)
    network = checkpoint.build(header)
    network.load_state_dict(weights)
    return network, header


def test_clean_accuracy_is_as_noted() -> None:
    network, header = network_and_note()
    accuracy = evaluate(network, digits.clean("test"))
    assert accuracy >= 0.97
    assert accuracy == pytest.approx(header.made_by["clean_test_accuracy"], abs=0.003)
    (noted,) = re.findall(r"([\d.]+) % on the clean test split", note())
    assert 100 * accuracy == pytest.approx(float(noted), abs=0.3)


def test_severity_5_leaves_room_to_adapt() -> None:
    network, _ = network_and_note()

    def score(images: ImageSet) -> float:
        return evaluate(network, images)

    mean = np.mean([score(digits.corrupted(name, 5)) for name in CORRUPTIONS])
    assert 0.40 <= mean <= 0.75


def test_the_model_has_twelve_blocks() -> None:
    assert len(models.load("digits-vit").network.blocks) == 12  # type: ignore[arg-type]


def test_the_model_normalises_inside() -> None:
    source = models.load("digits-vit")
    images = torch.rand(2, 3, 32, 32)
    inside, outside = source.fresh(torch.device("cpu")), source.network
    torch.testing.assert_close(inside(images), outside((images - MEAN[0]) / STD[0]))
    torch.testing.assert_close(inside.forward_features(images), outside.forward_features((images - MEAN[0]) / STD[0]))


def test_training_is_repeatable_and_leaves_the_global_generator_alone(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    before = torch.get_rng_state()
    for name in ("a", "b"):
        train_digits(folder / f"{name}.safetensors", epochs=1)
    assert torch.equal(before, torch.get_rng_state())
    first, second = (checkpoint.load(folder / f"{name}.safetensors")[0] for name in ("a", "b"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert models.load(str(folder / "a.safetensors")).num_classes == 10


def test_jitter_moves_but_keeps_the_paper() -> None:
    page = torch.full((4, 3, 32, 32), 0.25)
    torch.testing.assert_close(jitter(page, torch.Generator().manual_seed(0)), page)
