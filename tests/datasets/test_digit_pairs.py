"""Drawings of two digits: the same everywhere, none twice, and a source model that reads them."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

import numpy as np
import pytest
import torch

from tta_bench.corruptions import CORRUPTIONS, HELD_OUT, corrupt
from tta_bench.datasets import digit_pairs, open_dataset
from tta_bench.datasets.digit_pairs import Drawings
from tta_bench.errors import UserError
from tta_bench.models import checkpoint
from tta_bench.models import source as models
from tta_bench.models.train import evaluate
from tta_bench.streams.ccc.images import changing_parts
from tta_bench.streams.orders import DRAWS_PER_CLASS
from tta_bench.streams.scenarios import SCENARIOS, Ccc, scenario_of
from tta_bench.streams.stream import Part, make_stream
from tta_bench.suites import suite as suites

CPU = torch.device("cpu")
SUITES = ("demo", "digit-pairs-c-holdout", *(f"digit-pairs-c-{severity}" for severity in range(1, 6)))
DRAWN = "077d402f1f0df6ea"
LABELS = [94, 68, 50, 85, 38, 47, 33, 78]


def digest(images: np.ndarray) -> str:  # type: ignore[type-arg]
    return hashlib.sha256(np.ascontiguousarray(images).tobytes()).hexdigest()[:16]


def test_drawings_never_change() -> None:
    """Recorded once: other drawings would unmatch all records, and need a new source model."""
    drawings = Drawings("stream", "test", 64)
    images = drawings.read(np.arange(64))
    assert (images.shape, images.dtype) == ((64, 3, 16, 32), np.uint8)
    assert digest(images) == DRAWN
    assert drawings.labels[:8].tolist() == LABELS
    assert drawings.ids[0] == "digit-pairs/stream/000000"


def test_a_drawing_depends_on_its_name_alone() -> None:
    few, many = Drawings("stream", "test", 10), Drawings("stream", "test", 200)
    assert np.array_equal(few.read(np.arange(10)), many.read(np.arange(10)))
    assert few.labels.tolist() == many.labels[:10].tolist()
    assert few.ids[:3] == many.ids[:3]
    backwards = many.read(np.arange(199, -1, -1))
    assert np.array_equal(backwards[::-1], many.read(np.arange(200)))
    assert np.array_equal(many.read(np.array([150]))[0], backwards[49])
    other = Drawings("tuning", "test", 10)
    assert not any(
        np.array_equal(a, b) for a, b in zip(few.read(np.arange(10)), other.read(np.arange(10)), strict=True)
    )


def test_digits_are_those_of_the_label() -> None:
    """The halves of a drawing are nearest to the mean of their own digit far more often than by chance."""
    drawings = Drawings("labels", "test", 2000)
    pages = drawings.read(np.arange(2000))[:, 0].astype(float)
    for half, digit in ((pages[:, :, :16], drawings.labels // 10), (pages[:, :, 16:], drawings.labels % 10)):
        flat = half.reshape(2000, -1)
        flat = (flat - flat.mean(1, keepdims=True)) / flat.std(1, keepdims=True)
        means = np.stack([flat[:1000][digit[:1000] == d].mean(0) for d in range(10)])
        nearest = (flat[1000:] @ means.T - 0.5 * (means**2).sum(1)).argmax(1)
        assert (nearest == digit[1000:]).mean() > 0.5  # 0.1 by chance


def test_streams_are_of_digits_that_the_model_has_not_seen() -> None:
    ink = {split: digit_pairs._digits(split)[0] for split in ("train", "test")}  # type: ignore[arg-type]
    assert (len(ink["train"]), len(ink["test"])) == (1300, 497)
    train, test = ({page.tobytes() for page in pages} for pages in ink.values())
    assert not train & test


@pytest.mark.parametrize("name", ["stream", "tuning"])
def test_no_image_comes_twice(name: str) -> None:
    images = digit_pairs.clean(name, 3072)
    assert len(set(images.ids)) == 3072
    assert len({page.tobytes() for page in images.read(np.arange(3072))}) == 3072
    counts = np.bincount(images.labels, minlength=100)
    assert counts.min() >= 8
    assert counts.max() <= 70


def test_a_corrupted_drawing_does_not_depend_on_the_others() -> None:
    for task in ("fog", "jpeg_compression", "speckle_noise"):
        before, after = digit_pairs.clean(digit_pairs.set_of(task), 70), digit_pairs.corrupted(task, 3, 70)
        page = before.read(np.array([66]))[0].transpose(1, 2, 0)
        alone = corrupt(page, task, 3, image_id=before.ids[66], scale="small").transpose(2, 0, 1)
        assert np.array_equal(after.read(np.array([66]))[0], alone)
        assert after.ids == before.ids


def test_settings_are_chosen_on_drawings_that_no_table_scores() -> None:
    data = open_dataset({"kind": "digit-pairs-c", "severity": 5, "images": 100}, (), None)
    scored = {tuple(data.originals(task).ids) for task in CORRUPTIONS}  # type: ignore[union-attr]
    held_out = {tuple(data.originals(task).ids) for task in HELD_OUT}  # type: ignore[union-attr]
    assert len(scored) == len(held_out) == 1
    assert not set(*scored) & set(*held_out)
    source = data.source_images()
    assert not set(source.ids) & {*next(iter(scored)), *next(iter(held_out))}


@pytest.mark.parametrize("name", SUITES)
def test_suites_fit_together(name: str) -> None:
    suite = suites.load(name)
    assert suite.data["images"] == 3072
    assert list(suite.methods) == ["source", "tent", "eata", "sar", "dpal", "dpal-official"]
    assert suite.methods == suites.load("digit-pairs-c-holdout").methods, "settings come from the held-out suite"
    assert suite.batch_size == suites.load("digit-pairs-c-holdout").batch_size
    held_out = name.endswith("holdout")
    assert set(suite.tasks) <= set(HELD_OUT if held_out else CORRUPTIONS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_makes_a_stream(name: str) -> None:
    data = open_dataset({"kind": "digit-pairs-c", "severity": 5, "images": 200}, (), None)
    scenario = scenario_of(name, {})
    for tasks in scenario.groups(("contrast", "fog")):
        if isinstance(scenario, Ccc):
            parts = changing_parts(scenario, data, {"kind": "digit-pairs-c"}, "mine", 0, tasks, None)
            assert len(make_stream(scenario, "mine", 0, parts).order) == scenario.length
            continue
        parts = [
            Part(task, (data if level is None else data.at_severity(level)).open(task))
            for task in tasks
            for level in scenario.severities
        ]
        stream = make_stream(scenario, "mine", 0, parts)
        assert stream.images.read(stream.order[:20]).shape == (20, 3, 16, 32)
        seen = [stream.images.ids[i] for i in stream.order]
        if name == "label-shift":  # draws with replacement, by definition
            assert len(seen) == DRAWS_PER_CLASS * len(np.unique(stream.images.labels))
        else:
            assert len(set(seen)) == len(seen) == 200 * len(tasks)


@pytest.mark.parametrize("images", [0, -1, 2.5, "many", True, 10**7])
def test_a_wrong_length_is_one_line(images: object) -> None:
    said = r"^data: kind 'digit-pairs-c': images: expected a whole number from 1 to 1,000,000, got "
    with pytest.raises(UserError, match=said):
        open_dataset({"kind": "digit-pairs-c", "severity": 5, "images": images}, (), None)


def note() -> str:
    return (resources.files("tta_bench.models.checkpoints") / "digit_pairs_vit.md").read_text()


def test_the_model_is_small_and_has_its_note() -> None:
    file = resources.files("tta_bench.models.checkpoints") / "digit_pairs_vit.safetensors"
    assert len(file.read_bytes()) <= 2_000_000
    source = models.load("digit-pairs-vit")
    assert source.weights_hash in note()
    assert "`tta-bench train-source digit-pairs --seed " in note()
    assert (source.num_classes, len(source.network.blocks)) == (100, 12)  # type: ignore[arg-type]


def test_clean_accuracy_is_as_noted() -> None:
    with resources.as_file(resources.files("tta_bench.models.checkpoints") / "digit_pairs_vit.safetensors") as path:
        weights, header = checkpoint.load(path)
    network = checkpoint.build(header)
    network.load_state_dict(weights)
    for name in ("clean", "stream"):
        accuracy = evaluate(network, header, Drawings(name, "test", 3072), CPU)
        assert accuracy >= 0.97
    (noted,) = re.findall(r"([\d.]+) % on the clean test split", note())
    accuracy = evaluate(network, header, Drawings("clean", "test", 5000), CPU)
    assert 100 * accuracy == pytest.approx(float(noted), abs=0.1)
