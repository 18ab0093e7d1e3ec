"""`tta_bench.evaluate`: the run's own pass, on the caller's batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tta_bench
from tta_bench import Method
from tta_bench.datasets import open_dataset
from tta_bench.errors import UserError
from tta_bench.evaluation.result import BrokenStream
from tta_bench.measure.process import process_state
from tta_bench.models.source import SourceModel, load

LENGTH, SIZE = 80, 32  # the last batch is short
Pairs = list[tuple[Tensor, Tensor]]


class Net(nn.Module):
    """A small network with a norm layer, for tests that need no trained one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(8, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.body(images).flatten(1))


class Stops(Method):
    """Raises KeyboardInterrupt in the third batch, as Ctrl-C would."""

    seen = 0

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        self.seen += 1
        if self.seen == 3:
            raise KeyboardInterrupt
        return self.model(batch)


class Draws(Method):
    """Draws from all global generators, and writes into its input: it breaks the contract."""

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        random.random(), np.random.rand(), torch.rand(1)
        return self.model(batch.zero_())


@pytest.fixture
def net() -> Net:
    with torch.random.fork_rng():
        return Net()


@pytest.fixture
def pairs() -> Pairs:
    g = torch.Generator().manual_seed(0)
    return [(torch.rand(8, 3, 12, 12, generator=g), torch.randint(5, (8,), generator=g)) for _ in range(6)]


@pytest.fixture(scope="module")
def digits() -> SourceModel:
    return load("digits-vit")


def in_order_of(folder: Path) -> Pairs:
    """The images of a run's stream in its order, as a script would have them."""
    index = tta_bench.predictions(folder, method="source")["image"].to_numpy()
    images = open_dataset({"kind": "digits-c", "severity": 5}, ["snow"], None).open("snow")
    x = torch.from_numpy(images.read(index)).float() / 255
    return list(zip(x.split(SIZE), torch.from_numpy(images.labels[index]).split(SIZE), strict=True))


@pytest.mark.parametrize(("method", "settings"), [("tent", {"lr": 0.03}), ("sar", {}), ("eata", {}), ("cfa", {})])
def test_answers_and_counts_are_those_of_a_run(
    method: str, settings: dict[str, Any], digits: SourceModel, tmp_path: Path
) -> None:
    ran = tta_bench.run(
        methods={"source": {}, "own": {"method": method, **settings}},
        suite="digits-c-5",
        tasks=["snow"],
        limit=LENGTH,
        out=tmp_path / "run",
    )
    data = open_dataset({"kind": "digits-c", "severity": 5}, ["snow"], None).source_images()
    clean = torch.from_numpy(data.read(np.arange(len(data.ids)))).float() / 255
    source = zip(clean.split(SIZE), torch.from_numpy(data.labels).split(SIZE), strict=True)
    result = tta_bench.evaluate(
        method, digits.network, in_order_of(tmp_path / "run"), settings=settings, source=source, mean=digits.mean,
        std=digits.std,
    )  # fmt: skip

    for found, record in zip((result.source, result), ran.records, strict=True):
        assert found is not None
        theirs = ran.runs.predictions(record.cell)
        assert np.array_equal(found.predictions.prediction, theirs.prediction)
        assert np.array_equal(found.predictions.confidence, theirs.confidence)
        assert found.accuracy == 100 * record.scores.top1
        for name in ("sample_forwards", "sample_backwards", "prepare_forwards", "score_point", "resets", "remarks"):
            assert getattr(found.measured, name) == getattr(record.measured, name), name
        assert len(found.measured.batch_seconds) == len(record.measured.batch_seconds)
    assert result.difference is not None
    table = ran.compare("source", "own (lr=0.03)" if settings else "own").table
    assert result.difference.points == pytest.approx(dict(table.rows)["Avg."][2].mean)


def test_the_model_and_the_callers_batches_stay_as_they_are(net: Net, pairs: Pairs) -> None:
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    images = [x.clone() for x, _ in pairs]
    result = tta_bench.evaluate(Draws, net, pairs)

    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(torch.equal(x, y) for (x, _), y in zip(pairs, images, strict=True))
    assert "changed its input batch" in result.remarks
    assert "changed torch's random generator (restored)" in result.remarks


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_draws_what_it_draws_in_a_loop_of_its_own(net: Net, pairs: Pairs, workers: int) -> None:
    x, y = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    loader = DataLoader(TensorDataset(x, y), 8, shuffle=True, num_workers=workers)
    torch.manual_seed(1)
    labels = torch.cat([own for _, own in loader])
    after = process_state()
    torch.manual_seed(1)
    result = tta_bench.evaluate(Draws, net, loader)

    assert torch.equal(torch.from_numpy(result.predictions.label), labels.int())
    assert process_state() == after
    assert tta_bench.evaluate("source", net, loader, against=None).remarks == []


def test_a_built_method_keeps_what_it_learns_and_starts_from_its_source(net: Net, pairs: Pairs) -> None:
    method = tta_bench.build_method("tent", net, num_classes=5, batch_size=8, params={"lr": 0.1})
    first = tta_bench.evaluate(method, net, pairs)
    learned = {name: value.clone() for name, value in net.state_dict().items()}
    again = tta_bench.evaluate(method, net, pairs)

    assert first.method == "Tent"
    assert np.array_equal(first.predictions.confidence, again.predictions.confidence)
    assert not torch.equal(learned["body.1.weight"], torch.ones(8))
    assert all(torch.equal(value, learned[name]) for name, value in net.state_dict().items())


def test_a_class_an_iterator_and_numpy_labels_will_do(net: Net, pairs: Pairs) -> None:
    stream = ((images, labels.numpy()) for images, labels in pairs)
    result = tta_bench.evaluate(Draws, net, stream, against=None)

    assert (result.source, result.difference) == (None, None)
    assert len(result.predictions) == 48
    assert result.passes == (1.0, 0.0)
    assert list(result.frame().columns) == ["label", "prediction", "confidence", "correct", "batch"]
    assert "Draws" in str(result)
    assert "between source and source: " in str(tta_bench.evaluate("source", net, pairs))


def test_ctrl_c_keeps_what_is_done(net: Net, pairs: Pairs) -> None:
    with pytest.raises(tta_bench.Interrupted, match="after 16 images") as stopped:
        tta_bench.evaluate(Stops, net, pairs)

    done = stopped.value.done
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert done.source is not None
    assert len(done.predictions) == len(done.source.predictions) == 16
    assert len(done.measured.batch_seconds) == 2
    assert done.difference is not None


def test_normalisation_may_be_inside_or_given(net: Net, pairs: Pairs) -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, images: Tensor) -> Tensor:
            return self.net((images - 0.5) / 0.25)

    inside = tta_bench.evaluate("source", Normalised(), pairs, against=None)
    given = tta_bench.evaluate("source", net, pairs, against=None, mean=[0.5] * 3, std=[0.25] * 3)

    assert np.array_equal(inside.predictions.confidence, given.predictions.confidence)
    assert not np.array_equal(
        given.predictions.confidence, tta_bench.evaluate("source", net, pairs, against=None).predictions.confidence
    )


class Tuple(Net):
    def forward(self, images: Tensor) -> Any:
        return super().forward(images), images


class NotANumber(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) / 0


def changed(pairs: Pairs, place: int, **new: Any) -> Pairs:
    images, labels = pairs[place]
    pair = new.get("images", images), new.get("labels", labels)
    return [*pairs[:place], pair, *pairs[place + 1 :]]


class TooShort(list[Any]):
    def __len__(self) -> int:
        return super().__len__() + 3


def ends(pairs: Pairs) -> Iterator[Any]:
    yield from pairs[:2]
    yield pairs[2][0][:3], pairs[2][1][:3]
    yield pairs[3]


def raises(pairs: Pairs, after: int) -> Iterator[Any]:
    yield from pairs[:after]
    raise OSError("the disk is gone")


BAD = [
    (lambda p: changed(p, 0, labels=torch.full((8,), 5)), "batch 1: label 5 is out of range: the model has 5 classes"),
    (lambda p: changed(p, 2, labels=torch.full((8,), -1)), "batch 3: label -1 is out of range"),
    (lambda p: changed(p, 0, labels=torch.rand(8)), "batch 1: expected 8 whole numbers as labels, got torch.float32"),
    (lambda p: changed(p, 1, labels=nn.functional.one_hot(p[1][1], 5)), r"got torch.int64 of shape \(8, 5\)"),
    (lambda p: changed(p, 1, labels=p[1][1] > 2), "batch 2: expected 8 whole numbers as labels, got torch.bool"),
    (lambda p: changed(p, 1, labels=["cat"] * 8), "batch 2: expected 8 whole numbers as labels: ValueError"),
    (lambda p: changed(p, 1, labels=torch.zeros(7, dtype=torch.int64)), "batch 2: expected 8 whole numbers as labels"),
    (lambda p: changed(p, 0, images=p[0][0] * 4 - 2), r"batch 1: images go from -2 to 2, expected \[0, 1\]"),
    (lambda p: changed(p, 1, images=p[1][0] * torch.nan), "batch 2: images go from nan to nan"),
    (
        lambda p: changed(p, 0, images=p[0][0].mul(255).byte()),
        "batch 1: images are torch.uint8: .* divide bytes by 255",
    ),
    (lambda p: changed(p, 0, images=p[0][0][0]), r"batch 1: expected images as a Tensor of shape \[B, C, H, W\]"),
    (lambda p: changed(p, 1, images=torch.rand(16, 3, 12, 12)), "batch 2: has 16 images, the first has 8"),
    (lambda p: changed(p, 1, images=p[1][0][:, :1]), r"batch 2: images have shape \(1, 12, 12\), those of the first"),
    (lambda p: raises(p, 2), "batches: fails at batch 3: OSError: the disk is gone"),
    (lambda p: raises(p, 0), "batches: fails at batch 1: OSError: the disk is gone"),
    (lambda p: ends(p), "batch 4: follows one of 3 images"),
    (lambda p: TooShort(p), "ended after 6 of the 9 batches that its length states"),
    (lambda p: [], "batches: it is empty"),
    (lambda p: iter(()), "batches: it is empty"),
    (lambda p: [images for images, _ in p], r"batch 1: expected \(images, labels\), got Tensor"),
    (lambda p: 3, "batches: expected an iterable of"),
]


@pytest.mark.parametrize(("make", "words"), BAD)
def test_wrong_batches_are_one_line(make: Any, words: str, net: Net, pairs: Pairs) -> None:
    batches, state = make(pairs), process_state()
    with pytest.raises(UserError, match=words) as refused:
        tta_bench.evaluate("source", net, batches)

    assert len(str(refused.value).splitlines()) == 1
    assert process_state() == state
    if isinstance(refused.value, BrokenStream) and refused.value.done:
        assert len(refused.value.done.predictions) in (8, 16, 19, 48)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": Tuple}, r"model: returned a tuple, expected logits \[B, classes\]"),
        ({"model": lambda: nn.Conv2d(3, 5, 3)}, "model: returned shape"),
        ({"model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(7, 5))}, "model: fails on the first batch: Runtime"),
        ({"model": lambda: 3}, "model: expected an nn.Module, got int"),
        ({"method": "tnet"}, "unknown method 'tnet'; did you mean 'tent'"),
        ({"method": 3}, "method: expected a name, a subclass of tta_bench.Method or an object"),
        ({"settings": {"lrr": 1}}, "method 'tent' has no setting 'lrr'; did you mean 'lr'"),
        ({"method": "eata"}, "method 'eata' learns from source images first: give source="),
        ({"mean": [0.5]}, "mean and std: give both"),
        ({"mean": [0.5] * 2, "std": [0.5] * 2}, "mean and std: expected 3 numbers each, got 2 and 2"),
        ({"mean": 0.5, "std": 0.5}, "mean: expected a number for each channel"),
        ({"mean": [0.5] * 3, "std": [0, 1, 1]}, "std: holds 0"),
        ({"model": NotANumber}, "model: returned NaN or infinite logits for the first batch"),
        ({"settings": ["lr"]}, "settings: expected a dictionary"),
        ({"amp": "fp16"}, "amp: expected 'bf16' or None, got 'fp16'"),
        ({"seed": "a"}, "seed: expected a whole number"),
        ({"against": "tent"}, "against: expected 'source' or None"),
        ({"device": "cuda:77"}, "device 'cuda:77' is not available"),
    ],
)
def test_other_wrong_input_is_one_line(changes: dict[str, Any], words: str, pairs: Pairs) -> None:
    given = {"method": "tent", "model": Net, **changes}
    with torch.random.fork_rng():
        model = given.pop("model")()
    with pytest.raises(UserError, match=words) as refused:
        tta_bench.evaluate(given.pop("method"), model, pairs, **given)

    assert len(str(refused.value).splitlines()) == 1
