"""How DPAL's prediction networks start: exactly at the source model, or with the disturbance that the start brings."""

from __future__ import annotations

from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.methods.test_method_facts import on_meta
from tests.methods.test_method_models import VITS
from tests.support.checkout import ROOT
from tests.support.reference import pairwise_similarity
from tests.support.small import small_vit, stream, tiny
from tests.support.traces import golden_batches, golden_model
from tta_bench import Method, build_method
from tta_bench.data.families import HELD_OUT
from tta_bench.data.images import ImageSet
from tta_bench.datasets import digits, open_dataset
from tta_bench.errors import UserError
from tta_bench.models import source as models

CPU = torch.device("cpu")


def built(model: nn.Module, **params: Any) -> Any:
    return build_method("dpal", model, num_classes=10, batch_size=8, params={"predictor_init": "source", **params})


def plain(model: nn.Module, batch: Tensor) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model(batch)
    return logits


@pytest.mark.parametrize("kind", [kind for kind in VITS if "drop" not in kind])
@pytest.mark.parametrize("tokens", [1, 4])
def test_the_first_answers_are_those_of_the_source_model(kind: str, tokens: int) -> None:
    """In float64, where rounding cannot be taken for a disturbance."""
    model, (batch,) = small_vit(**VITS[kind]).double(), stream(count=1, pixels=VITS[kind].get("img_size", 16))
    expected = plain(model, batch.double())
    method = built(model, shift_tokens=tokens)
    torch.testing.assert_close(method.adapt(batch.double()), expected, atol=1e-12, rtol=0)


def test_the_first_answers_of_the_embedded_model_are_those_of_the_source_model() -> None:
    model, (batch,) = models.load("digits-vit").fresh(CPU), stream(count=1, size=32, pixels=32)
    expected = plain(model, batch)
    torch.testing.assert_close(built(model).adapt(batch), expected, atol=1e-6, rtol=0)


def test_the_first_answers_of_a_distilled_deit_are_those_of_the_source_model() -> None:
    model = tiny("deit_tiny_distilled_patch16_224", img_size=32, depth=3, embed_dim=24, num_heads=3)
    (batch,) = stream(count=1, pixels=32)
    expected = plain(model, batch)
    torch.testing.assert_close(built(model).adapt(batch), expected)


@pytest.mark.parametrize("start", ["zeros", "default", "small"])
def test_every_other_start_disturbs_the_source_model(start: str) -> None:
    model, (batch,) = small_vit(), stream(count=1)
    expected = plain(model, batch)
    assert not torch.allclose(built(model, predictor_init=start).adapt(batch), expected, atol=1e-3)


def test_by_default_nothing_is_subtracted_before_anything_is_learned() -> None:
    """The other starts of the published network subtract random shifts from every class token."""
    model, (batch, *_) = models.load("digits-vit").fresh(CPU), stream(count=2, size=32, pixels=32)
    starts = {start: built(model, predictor_init=start) for start in ("default", "small")}
    own = build_method("dpal", model, num_classes=10, batch_size=8)
    assert not own.features(batch)["shifts"].any()
    assert all(method.features(batch)["shifts"].any() for method in starts.values())
    own.adapt(batch)
    assert own.features(batch)["shifts"].any()


def first_answers(source: models.SourceModel, images: ImageSet, count: int) -> tuple[float, float]:
    """The accuracy of the source model, and of `dpal` before its first update, in points."""
    pixels = torch.from_numpy(images.read(np.arange(count))).float() / 255
    labels = torch.from_numpy(images.labels[:count])
    classes = source.num_classes
    method: Any = build_method("dpal", source.fresh(CPU), num_classes=classes)
    with torch.no_grad():
        found = source.fresh(CPU)(pixels), method.features(pixels)["logits"]
    one, other = (100 * float((logits.argmax(1) == labels).float().mean()) for logits in found)
    return one, other


@pytest.mark.parametrize("task", HELD_OUT)
def test_the_first_accuracy_is_near_that_of_the_embedded_model(task: str) -> None:
    one, other = first_answers(models.load("digits-vit"), digits.corrupted(task, 5), 512)
    assert abs(one - other) < 2


@pytest.mark.slow
def test_the_first_accuracy_is_near_that_of_a_pretrained_vit() -> None:
    """Where `make photos` has made it: mean over the held-out corruptions."""
    home = ROOT / "build" / "photos"
    weights = home / "cifar10_vit_small.safetensors"
    if not weights.is_file():
        pytest.skip(f"needs {weights}: `make photos-networks` makes it")
    source = models.load(str(weights))
    options = {"kind": "cifar-train-c", "classes": 10, "severity": 5, "images": 512}
    data = open_dataset(options, HELD_OUT, home / "data").sized(source.input_size, source.interpolation)
    pairs = [first_answers(source, data.open(task), 512) for task in HELD_OUT]
    assert abs(mean(one - other for one, other in pairs)) < 2


def similarity(method: Method, images: Tensor) -> float:
    with torch.no_grad():
        return float(pairwise_similarity(list(method.features(images)["shifts"])))


def test_similarity_rises_from_the_first_batch_on() -> None:
    """With a head that says nothing the entropy is constant, and what moves is moved by similarity alone."""
    model, batches = golden_model(head_scale=0.0), golden_batches()[:5]
    method = built(model, entropy_threshold=5.0)
    values = []
    for batch in batches * 2:
        values.append(similarity(method, torch.cat(batches)))
        method.adapt(batch)
    assert values == sorted(values)
    assert values[-1] > values[0] + 1e-5


def test_every_part_learns() -> None:
    method = built(small_vit(), entropy_threshold=5.0, reset_threshold=0.0)
    start = method.adapted_state()
    for batch in stream():
        method.adapt(batch)
    still = [name for name, value in method.adapted_state().items() if torch.equal(value, start[name])]
    assert still == []


@pytest.mark.parametrize("lr", [0.01, 0.1, 1.0])
def test_a_long_stream_stays_finite(lr: float) -> None:
    method = built(small_vit(), lr=lr)
    for batch in [*stream(count=20), torch.full((8, 3, 16, 16), 0.5), *stream(count=2, size=1)]:
        assert method.adapt(batch).isfinite().all()
    assert all(tensor.isfinite().all() for tensor in method.adapted_parameters().values())
    assert -1 <= similarity(method, stream(count=1)[0]) <= 1 + 1e-6


@pytest.mark.parametrize("params", [{"predictor_hidden": 5}, {"score": "second"}, {"predictor_rho": 0.05}])
def test_reset_replays_bit_for_bit(params: dict[str, Any]) -> None:
    method, batches = built(small_vit(), **params), stream(last=3)
    first = [method.adapt(batch) for batch in batches]
    method.reset()
    for before, batch in zip(first, batches, strict=True):
        assert torch.equal(before, method.adapt(batch))


@pytest.mark.parametrize(
    ("hidden", "weights"), [(None, 14_174_208), (768, 14_174_208), (64, 1_189_632)], ids=["released", "768", "64"]
)
def test_the_hidden_width_decides_how_many_weights_are_added(hidden: int | None, weights: int) -> None:
    params = {"predictor_init": "default", "predictor_hidden": hidden}
    method = build_method("dpal", on_meta("vit_base_patch16_224"), num_classes=1000, params=params)
    added = {name: tensor for name, tensor in method.adapted_parameters().items() if name.startswith("predictors.")}
    assert sum(tensor.numel() for tensor in added.values()) == weights


def test_a_hidden_width_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="predictor_hidden is 0, expected 1 or more, or none"):
        built(small_vit(), predictor_hidden=0)


def test_an_attention_without_a_mask_is_refused_with_a_way_out() -> None:
    class Unmasked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    model: Any = small_vit()
    model.blocks[3].attn = Unmasked()
    with pytest.raises(UserError, match="needs an attention that takes a mask.*choose another start"):
        built(model)
