"""ROID and CMF beyond their traces: what they remember, single images, other models, and what a step computes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from tta_bench_methods.roid import scaled

from tests.support.small import small_resnet, small_vit, stream, tiny
from tests.support.traces import Trace, golden_batches
from tta_bench import Method, build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter

both = pytest.mark.parametrize("name", ["roid", "cmf"])


def built(name: str = "roid", model: nn.Module | None = None, batch_size: int = 8, **params: Any) -> Any:
    model = small_vit() if model is None else model
    return build_method(name, model, num_classes=10, batch_size=batch_size, params={"lr": 0.01, **params})


def run(method: Method, batches: list[Tensor]) -> list[Tensor]:
    return [method.adapt(batch) for batch in batches]


@pytest.mark.parametrize(
    "case", ["roid", "roid-weighting-only", "roid-single-window", "cmf", "cmf-filter", "cmf-reset"]
)
def test_what_is_remembered_is_what_the_released_code_remembers(case: str) -> None:
    trace = Trace(case)
    method: Any = trace.build()
    variances = []
    for batch in golden_batches():
        trace.adapt(method, batch)
        variances.append(getattr(method, "_variance", 0.0))
    extra = trace.tensors("extra/")
    if "class_probs_ema" in extra:
        torch.testing.assert_close(method._average, extra["class_probs_ema"].flatten(), atol=1e-5, rtol=0)
    for name, hidden in zip(method.adapted_parameters(), getattr(method, "_hidden", []), strict=False):
        torch.testing.assert_close(hidden, extra[f"hidden/{name}"], atol=1e-4, rtol=0)
    assert variances == pytest.approx(trace.meta.get("hidden_variance_per_batch", [0.0] * 6), rel=1e-6)


def test_the_published_gain_settles_where_it_was_measured() -> None:
    method = built("cmf", q=0.005)
    gains = [method._gain() for _ in range(200)]
    assert [round(gains[i], 3) for i in (0, 1, 4, 9, -1)] == [0.995, 0.990, 0.977, 0.961, 0.940]


@both
def test_single_images_are_learned_from_when_the_window_is_new(name: str) -> None:
    method = built(name, batch_size=1, window_length=3)
    states = [method.adapted_state()]
    for image in stream(count=7, size=1):
        with torch.no_grad():
            alone = method.model(image)
        logits = method.adapt(image)
        states.append(method.adapted_state())
        assert torch.allclose(logits, alone, atol=1e-5) == (len(states) % 3 != 1)
    moved = [any(not torch.equal(b[key], a[key]) for key in a) for a, b in pairwise(states)]
    assert moved == [False, False, True, False, False, True, False]
    assert len(method._window) == 3


@both
def test_a_single_image_counts_fully_without_a_window(name: str) -> None:
    method = built(name, batch_size=1)
    for image in stream(count=6, size=1):
        start = method.adapted_state()
        assert method.adapt(image).isfinite().all()
        assert any(not torch.equal(value, start[key]) for key, value in method.adapted_state().items())
    assert method._weights(torch.randn(1, 10)).tolist() == [1.0]


@both
def test_single_images_on_batchnorm_take_the_windows_statistics(name: str) -> None:
    method = built(name, small_resnet(), batch_size=1, window_length=4)
    images = stream(count=4, size=1, pixels=32)
    for image in images[:2]:
        method.adapt(image)
    with torch.no_grad():
        together = method.model(torch.cat(images[:3]))[2:]
    torch.testing.assert_close(method.adapt(images[2]), together)


def test_scaling_equal_values_gives_zero_where_the_released_code_divides_by_zero() -> None:
    assert scaled(torch.full((4,), 3.0)).tolist() == [0.0] * 4
    assert scaled(torch.tensor([1.0, 3.0, 2.0])).tolist() == [0.0, 1.0, 0.5]
    assert built()._weights(torch.ones(4, 10)).tolist() == [1.0] * 4


@both
@pytest.mark.parametrize("params", [{"use_weighting": False}, {"use_consistency": False}, {"reset_interval": 2}])
def test_parts_can_be_switched_off(name: str, params: dict[str, Any]) -> None:
    method = built(name, **params)
    for logits in run(method, stream(last=3)):
        assert logits.isfinite().all()
    assert method.resets == (2 if "reset_interval" in params else 0)


@both
def test_prior_correction_multiplies_logits_by_the_smoothed_prior(name: str) -> None:
    with_prior, without = (built(name, use_prior_correction=on) for on in (True, False))
    for batch in stream(last=3):
        expected = with_prior.predict(batch)
        plain = without.adapt(batch)
        prior = plain.softmax(1).mean(0)
        smooth = max(1 / len(batch), 1 / 10) / prior.max()
        torch.testing.assert_close(expected, plain * (prior + smooth) / (1 + 10 * smooth))
        torch.testing.assert_close(with_prior.adapt(batch), expected)


@both
def test_views_follow_the_seed(name: str) -> None:
    zero, again, one = (built(name, seed=seed) for seed in (0, 0, 1))
    for method in (zero, again, one):
        run(method, stream())
    states = [method.adapted_state() for method in (zero, again, one)]
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    assert any(not torch.equal(value, states[2][key]) for key, value in states[0].items())


@both
def test_only_kept_samples_and_their_views_are_computed(name: str) -> None:
    method, batch = built(name, lr=0.0), stream(count=1)[0]
    method.use_prior_correction = False
    kept = int(method._weights(method.predict(batch)).count_nonzero())
    assert 0 < kept < 8
    with CostCounter(method.model) as counter:
        method.adapt(batch)
    assert (counter.sample_forwards, counter.sample_backwards) == (8 + kept + kept, kept + kept)


@both
@pytest.mark.parametrize(
    "model",
    [
        lambda: small_resnet("batch"),
        lambda: small_resnet("group"),
        lambda: tiny("convnext_atto"),
        lambda: small_vit(img_size=32, class_token=False, global_pool="avg"),
    ],
    ids=["batchnorm", "groupnorm", "convnext", "average pooling"],
)
def test_other_models_adapt(name: str, model: Any) -> None:
    method = built(name, model())
    start = method.adapted_state()
    batches = [*stream(pixels=32, last=3), *stream(count=2, size=1, pixels=32), torch.zeros(4, 3, 32, 32)]
    first = run(method, batches)
    assert all(logits.isfinite().all() for logits in first)
    for key, tensor in method.adapted_parameters().items():
        assert tensor.isfinite().all(), key
    assert any(not torch.equal(tensor, start[key]) for key, tensor in method.adapted_parameters().items())
    method.reset()
    for before, after in zip(first, run(method, batches), strict=True):
        assert torch.equal(before, after)


@both
def test_reset_forgets_window_variance_and_draws(name: str) -> None:
    method = built(name, window_length=3)
    batches = [*stream(count=2), *stream(count=4, size=1)]
    first = run(method, batches)
    method.reset()
    for before, after in zip(first, run(method, batches), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("roid", {"window_length": 0}, "window_length is 0, expected 1 or more"),
        ("roid", {"reset_interval": -1}, "reset_interval is -1"),
        ("cmf", {"temperature": 0.0}, "temperature is 0.0"),
        ("cmf", {"q": 1.0}, "q is 1, expected a number from 0 to below 1"),
        ("cmf", {"momentum_src": 0.9}, "no setting 'momentum_src'"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        built(name, **params)
