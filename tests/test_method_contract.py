"""What the harness expects of every method, tried on each one that is registered."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.small import small_vit, stream
from tta_bench import Method, build_method
from tta_bench.errors import UserError
from tta_bench.registry import installed

NAMES = installed().names()
every_method = pytest.mark.parametrize("name", NAMES)


def built(name: str, model: Any = None, **params: Any) -> Method:
    method = build_method(name, model or small_vit(), num_classes=10, batch_size=8, params=params)
    if method.needs_source:
        method.prepare(stream(count=2, seed=7))
    return method


def run(method: Method, batches: list[Tensor]) -> list[Tensor]:
    return [method.adapt(batch) for batch in batches]


def test_every_plugin_file_is_registered() -> None:
    files = {p.stem for p in (Path(__file__).parent.parent / "methods").glob("[!_]*.py")}
    owned = {e.module.rpartition(".")[2] for claims in installed().claims.values() for e in claims}
    assert files <= owned, f"missing in setup.cfg, or `pip install -e .` is due: {files - owned}"


@every_method
def test_says_what_it_is(name: str) -> None:
    cls = installed().load(name)
    assert cls.paper
    assert cls.adapts
    assert cls.passes


@every_method
def test_logits_are_finite_detached_and_of_the_right_shape(name: str) -> None:
    for batch, logits in zip(batches := stream(last=3), run(built(name), batches), strict=True):
        assert logits.shape == (len(batch), 10)
        assert not logits.requires_grad
        assert logits.isfinite().all()


@every_method
def test_reset_replays_a_stream_bit_for_bit(name: str) -> None:
    method, batches = built(name), stream(last=3)
    start = method.adapted_state()
    first = run(method, batches)
    method.reset()
    for key, value in method.adapted_state().items():
        assert torch.equal(value, start[key]), key
    for before, after in zip(first, run(method, batches), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("recovery", ["released", "fixed"])
@pytest.mark.parametrize("name", ["sar", "dpal", "dpal-official"])
def test_reset_replays_also_after_the_method_recovered_by_itself(name: str, recovery: str) -> None:
    method = built(name, reset_threshold=100.0, entropy_threshold=100.0, recovery=recovery)
    batches = stream()
    first = run(method, batches)
    assert method.resets == len(batches)
    method.reset()
    assert method.resets == 0
    for before, after in zip(first, run(method, batches), strict=True):
        assert torch.equal(before, after)


@every_method
def test_same_build_same_run(name: str) -> None:
    for one, other in zip(run(built(name), stream()), run(built(name), stream()), strict=True):
        assert torch.equal(one, other)


@every_method
def test_only_adapted_tensors_change(name: str) -> None:
    model = small_vit()
    method = built(name, model)
    adapted = method.adapted_parameters()
    before = {key: value.clone() for key, value in model.state_dict().items() if key not in adapted}
    start = method.adapted_state()
    run(method, stream())
    after = model.state_dict()
    for key, value in before.items():
        assert torch.equal(after[key], value), key
    assert name == "source" or any(not torch.equal(adapted[key], value) for key, value in start.items())


@every_method
def test_adapted_names_are_the_models_own(name: str) -> None:
    model = small_vit()
    parameters = dict(model.named_parameters())
    for key, tensor in built(name, model).adapted_parameters().items():
        if not key.startswith(("shift_tokens", "predictors.")):
            assert tensor is parameters[key]


@every_method
def test_input_is_left_alone(name: str) -> None:
    method, (batch,) = built(name), stream(count=1)
    copy = batch.clone()
    method.adapt(batch)
    assert torch.equal(batch, copy)
    assert not batch.requires_grad


@every_method
def test_global_randomness_is_left_alone(name: str) -> None:
    model, source, batches = small_vit(), stream(count=2), stream()
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    method = build_method(name, model, num_classes=10, batch_size=8)
    if method.needs_source:
        method.prepare(source)
    run(method, batches)
    method.reset()
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])


@every_method
def test_works_where_the_caller_switched_gradients_off(name: str) -> None:
    expected = run(built(name), stream(count=2))
    method = built(name)
    with torch.no_grad():
        for one, other in zip(run(method, stream(count=2)), expected, strict=True):
            assert torch.equal(one, other)


@every_method
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_batches_of_equal_images_keep_everything_finite(name: str, value: float) -> None:
    method = built(name)
    for size in (8, 8, 1):
        assert method.adapt(torch.full((size, 3, 16, 16), value)).isfinite().all()
    assert all(tensor.isfinite().all() for tensor in method.adapted_parameters().values())


@every_method
@pytest.mark.parametrize("threshold", [0.0, 5.0])
def test_batches_with_none_or_all_samples_reliable(name: str, threshold: float) -> None:
    if not hasattr(built(name), "entropy_threshold"):
        pytest.skip("has no filter")
    method = built(name, entropy_threshold=threshold)
    start = method.adapted_state()
    for batch in [*stream(last=3), *stream(count=2, size=1)]:
        assert method.adapt(batch).isfinite().all()
    for key, tensor in method.adapted_parameters().items():
        assert tensor.isfinite().all(), key
        assert threshold or torch.equal(tensor, start[key]), key


@every_method
def test_unknown_initial_tensor_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="unknown tensor 'nonsense'"):
        build_method(name, small_vit(), num_classes=10, initial_state={"nonsense": torch.zeros(1)})


@every_method
def test_a_method_without_a_snapshot_says_so_instead_of_staying_adapted(name: str) -> None:
    method = installed().load(name)(small_vit(), num_classes=10, batch_size=8)
    if method.adapted_parameters():
        with pytest.raises(UserError, match=r"has no snapshot to return to: build it with tta_bench\.build_method"):
            method.reset()
        method.remember()
    method.reset()


def test_eata_wants_source_data_first() -> None:
    method = build_method("eata", small_vit(), num_classes=10)
    with pytest.raises(UserError, match="prepare"):
        method.adapt(stream(count=1)[0])
    with pytest.raises(UserError, match="no source batches"):
        method.prepare([])
    build_method("eata", small_vit(), num_classes=10, params={"fisher_weight": 0.0}).adapt(stream(count=1)[0])


@pytest.mark.parametrize(
    ("name", "params", "reason"),
    [
        ("tent", {"steps": 0}, "steps is 0"),
        ("dpal", {"shift_tokens": 0}, "shift_tokens is 0"),
        ("sar", {"frozen_blocks": [12]}, "no block 12 among 0 to 11"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, params: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        build_method(name, small_vit(), num_classes=10, params=params)
