"""LAME against its equations written out, and batches in which the released code gives NaN."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from tta_bench_methods import lame as lame_method

from tests.support.released_features import lame
from tests.support.small import small_vit, stream
from tta_bench import build_method

AFFINITIES = ["kNN", "rbf", "linear"]


def by_hand(model: Any, batch: Tensor, affinity: str, knn: int, symmetric: bool) -> Tensor:
    with torch.no_grad():
        features = model.forward_head(model.forward_features(batch), pre_logits=True).double()
        p = model(batch).double().softmax(1)
    n = len(batch)
    f = features / features.norm(dim=1, keepdim=True)
    distances = (f[:, None] - f[None]).norm(dim=2)
    if affinity == "linear":
        w = f @ f.T
    elif affinity == "kNN":
        w = torch.zeros(n, n, dtype=torch.float64)
        for i in range(n):
            w[i, distances[i].argsort()[1 : knn + 1]] = 1
    else:
        width = distances.sort(1).values[:, min(knn, n) - 1].mean()
        w = (-(distances**2) / (2 * width**2)).exp()
    w = (w + w.T) / 2 if symmetric else w
    y = p
    for _ in range(2000):  # far beyond convergence
        y = ((p + 1e-10).log() + w @ y).softmax(1)
    return y


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    ("affinity", "knn"), [("kNN", 1), ("kNN", 3), ("kNN", 20), ("rbf", 2), ("rbf", 20), ("linear", 5)]
)
def test_the_equations_written_out(affinity: str, knn: int, symmetric: bool) -> None:
    network = small_vit(seed=6, num_classes=7, embed_dim=16, num_heads=2, depth=3)
    params = {"affinity": affinity, "knn": knn, "force_symmetry": symmetric}
    method = build_method("lame", network, num_classes=7, params=params)
    for batch in stream(count=2, size=12, last=4):
        expected = by_hand(network, batch, affinity, knn, symmetric)
        torch.testing.assert_close(method.adapt(batch).softmax(1), expected.float(), atol=1e-4, rtol=0)


def test_a_width_of_zero_leaves_every_image_to_itself() -> None:
    """The first of an image's neighbours is the image: with `knn` 1 the mean distance to it is zero."""
    method = build_method("lame", small_vit(), num_classes=10, params={"knn": 1})
    (batch,) = stream(count=1)
    alone = torch.cat([method.adapt(image) for image in batch.split(1)])
    torch.testing.assert_close(method.adapt(batch), alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("affinity", AFFINITIES)
def test_single_and_equal_images_keep_their_predictions(affinity: str) -> None:
    network = small_vit()
    method = build_method("lame", network, num_classes=10, params={"affinity": affinity})
    (image,) = stream(count=1, size=1)
    for batch in (image, image.expand(6, -1, -1, -1)):
        with torch.no_grad():
            source = network(batch).softmax(1)
        probabilities = method.adapt(batch).softmax(1)
        assert torch.equal(probabilities.argmax(1), source.argmax(1))
        assert (probabilities.max(1).values >= source.max(1).values - 1e-6).all()
        if affinity == "kNN" and len(batch) == 1:
            torch.testing.assert_close(probabilities, source)


def test_it_answers_in_log_probabilities_whatever_came_before() -> None:
    method = build_method("lame", small_vit(), num_classes=10)
    one, two = stream(count=2)
    first = method.adapt(two)
    torch.testing.assert_close(first.exp().sum(1), torch.ones(8))
    method.adapt(one)
    assert torch.equal(method.adapt(two), first)


class Classifier(nn.Module):
    """A model whose images are their own features."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(weight.shape[1], len(weight), bias=False)
        self.fc.weight.data.copy_(weight)

    def forward_features(self, images: Tensor) -> Tensor:
        return images.flatten(1)

    def forward_head(self, features: Tensor, pre_logits: bool = False) -> Tensor:
        return features if pre_logits else self.fc(features)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


@pytest.mark.parametrize("seed", [248, 348, 425, 552])
def test_the_loop_ends_with_the_released_one(seed: int) -> None:
    """Where Y settles slowly, one repetition more or less moves it: in these draws by 1e-4 to 2e-3."""
    draw = torch.Generator().manual_seed(seed)
    features = torch.randn(64, 32, generator=draw) + torch.randn(32, generator=draw)
    network = Classifier(torch.randn(4, 32, generator=draw) * 0.2)
    (batch,) = batches = [features[..., None, None]]
    params = {"affinity": "kNN", "knn": 5, "force_symmetry": True}
    (expected,), _ = lame(network, batches, **params)
    method = build_method("lame", network, num_classes=4, params=params)
    torch.testing.assert_close(method.adapt(batch).softmax(1), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("affinity", AFFINITIES)
def test_reading_energies_together_stops_at_the_same_iteration(affinity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read one by one, as the released code does, they end the loop at once."""
    batches = stream(count=4, size=12, last=5)
    stops: set[int] = set()

    def answers(unread: int) -> Tensor:
        monkeypatch.setattr(lame_method, "UNREAD", unread)
        method = build_method("lame", small_vit(), num_classes=10, params={"affinity": affinity})
        return torch.cat([method.adapt(batch) for batch in batches])

    def settled(energies: list[float]) -> int:
        stops.add(found := original(energies))
        return found

    original = lame_method.settled
    monkeypatch.setattr(lame_method, "settled", settled)
    one_by_one = answers(1)
    assert len(stops) > 2  # batches differ, and none of them stops at the end of a reading by chance
    for unread in (3, 8, lame_method.ITERATIONS):
        assert torch.equal(answers(unread), one_by_one)
