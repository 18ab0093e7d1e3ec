"""What the harness expects of a method, checked for every registered one."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.support.checkout import ROOT
from tests.support.everything import held, same
from tests.support.needed import needed
from tests.support.small import model_for, small_vit, stream
from tta_bench import Method, build_method, settings
from tta_bench.errors import UserError
from tta_bench.method import Kind
from tta_bench.registry import installed
from tta_bench.testing import check_method

NAMES = installed().names()
QUICK: dict[str, dict[str, Any]] = {
    "foa": {"population_size": 4},
    "memo": {"augmentations": 4},
    "rotta": {"memory_size": 6, "update_frequency": 5},
    "sotta": {"memory_size": 6, "update_frequency": 5, "confidence_threshold": 0.2},
}  # the same work, less often
every_method = pytest.mark.parametrize("name", NAMES)


def built(name: str, model: Any = None, **params: Any) -> Method:
    params = {**QUICK.get(name, {}), **needed(name), **params}
    method = build_method(name, model or model_for(name), num_classes=10, batch_size=8, params=params)
    if method.needs_source:
        method.prepare(stream(count=2, seed=7), [torch.arange(8)] * 2 if method.uses_labels else None)
    return method


def run(method: Method, batches: list[Tensor]) -> list[Tensor]:
    return [method.adapt(batch) for batch in batches]


def test_every_plugin_file_is_registered() -> None:
    files = {p.stem for p in (ROOT / "methods").glob("[!_]*.py")}
    owned = {e.module.rpartition(".")[2] for claims in installed().claims.values() for e in claims}
    assert files <= owned, f"missing in setup.cfg, or `pip install -e .` is due: {files - owned}"


@every_method
def test_keeps_every_promise(name: str) -> None:
    check_method(name, **QUICK.get(name, {}), **needed(name))


@every_method
def test_says_what_it_is(name: str) -> None:
    cls = installed().load(name)
    assert cls.paper
    assert cls.adapts
    assert cls.passes


@every_method
def test_says_what_it_needs(name: str) -> None:
    cls = installed().load(name)
    assert cls.kind in typing.get_args(Kind)
    assert ("source images" in cls.needs) == cls.needs_source
    assert ("source labels" in cls.needs) == cls.uses_labels
    assert cls.published_batch_size is None or cls.published_batch_size >= 1
    assert cls.slower_than_source >= 50


@every_method
def test_predicting_changes_no_later_batch(name: str) -> None:
    """Nor anything that the method holds, so that a stream's probe leaves no trace."""

    def logits(predict: bool) -> list[Tensor]:
        method, found = built(name), []
        for batch in stream(last=1):
            if predict:
                before = held(method)
                guess = method.predict(batch)
                assert guess.shape == (len(batch), 10)
                assert not guess.requires_grad
                assert torch.equal(guess, method.predict(batch))
                assert same(before, held(method)) == []
            found.append(method.adapt(batch))
        return found

    for one, other in zip(logits(True), logits(False), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["tent", "rotta"])
def test_adapting_is_seen_in_what_a_method_holds(name: str) -> None:
    method = built(name)
    before = held(method)
    method.adapt(stream()[0])
    assert same(before, held(method))


@every_method
def test_what_prepare_learned_can_be_kept(name: str, tmp_path: Path) -> None:
    learned = built(name)
    method = build_method(
        name, model_for(name), num_classes=10, batch_size=8, params=QUICK.get(name, {}) | needed(name)
    )
    assert method.prepared_state() == {}
    state = learned.prepared_state()
    assert bool(state) == method.needs_source
    if state:
        save_file(state, tmp_path / "learned.safetensors")
        method.load_prepared_state(load_file(tmp_path / "learned.safetensors"))
    for one, other in zip(run(method, stream(last=3)), run(learned, stream(last=3)), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(UserError, match="prepared state"):
        method.load_prepared_state({**state, "nonsense": torch.zeros(1)})
    for key in state:
        with pytest.raises(UserError, match=f"prepared state: no tensor '{key}'"):
            method.load_prepared_state({other: value for other, value in state.items() if other != key})
        with pytest.raises(UserError, match=f"prepared state: '{key}' has shape"):
            method.load_prepared_state({**state, key: torch.zeros(3, 3, 3)})


@pytest.mark.parametrize("recovery", ["released", "fixed"])
@pytest.mark.parametrize("name", ["sar", "sar-come", "dpal", "dpal-official"])
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
@pytest.mark.parametrize("threshold", [0.0, 5.0])
def test_batches_with_none_or_all_samples_reliable(name: str, threshold: float) -> None:
    if "entropy_threshold" not in settings.defaults(installed().load(name)):
        pytest.skip("has no filter")
    method = built(name, entropy_threshold=threshold)
    start = method.adapted_state()
    for batch in [*stream(last=3), *stream(count=2, size=1)]:
        assert method.adapt(batch).isfinite().all()
    for key, tensor in method.adapted_parameters().items():
        assert tensor.isfinite().all(), key
        assert threshold or torch.equal(tensor, start[key]), key


@every_method
def test_a_method_without_a_snapshot_says_so_instead_of_staying_adapted(name: str) -> None:
    method = installed().load(name)(model_for(name), num_classes=10, batch_size=8, **needed(name))
    if method.adapted_parameters():
        with pytest.raises(UserError, match=r"has no snapshot to return to: build it with tta_bench\.build_method"):
            method.reset()
        method.remember()
    method.reset()


@pytest.mark.parametrize("name", [name for name in NAMES if installed().load(name).needs_source])
def test_source_data_come_first(name: str) -> None:
    method = build_method(name, model_for(name), num_classes=10)
    with pytest.raises(UserError, match=f"{name}: adapt\\(\\) came before prepare\\(source_batches\\)"):
        method.adapt(stream(count=1)[0])
    with pytest.raises(UserError, match=f"{name}: prepare\\(\\) got (no|0) source"):
        method.prepare([])


def test_eata_without_its_anchor_needs_no_source_data() -> None:
    build_method("eata", small_vit(), num_classes=10, params={"fisher_weight": 0.0}).adapt(stream(count=1)[0])


@pytest.mark.parametrize(
    ("name", "params", "reason"),
    [
        ("tent", {"steps": 0}, "steps is 0"),
        ("t3a", {"filter_k": 0}, "filter_k is 0, expected 1 or more, or -1 to keep all supports"),
        ("t3a", {"filter_k": -2}, "filter_k is -2"),
        ("cfa", {"moments": 0}, "moments is 0"),
        ("cfa", {"max_grad_norm": 0.0}, "max_grad_norm is 0"),
        ("lame", {"knn": 0}, "knn is 0"),
        ("lame", {"affinity": "knn"}, "affinity: expected 'kNN' or 'rbf' or 'linear', got 'knn'"),
        ("rdumb", {"reset_interval": -1}, "reset_interval is -1"),
        ("bn-alpha", {"alpha": 1.5}, "alpha is 1.5"),
        ("foa", {"num_prompts": 0}, "num_prompts is 0"),
        ("foa", {"population_size": 3}, "population_size is 3"),
        ("dpal", {"shift_tokens": 0}, "shift_tokens is 0"),
        ("sar", {"frozen_blocks": [12]}, "no block 12 among 0 to 11"),
        ("sar", {"rho": -0.1}, "rho is -0.1, expected 0 or more"),
        ("dpal", {"predictor_rho": -1.0}, "predictor_rho is -1.0, expected 0 or more"),
        ("tent", {"lr": -1.0}, "lr is -1.0, expected 0 or more"),
        ("memo", {"lr": -1.0}, "lr is -1.0, expected 0 or more"),
        ("tent", {"momentum": 1.5}, "momentum is 1.5, expected 0 to below 1"),
        ("adacontrast", {"weight_decay": -1.0}, "weight_decay is -1.0, expected 0 or more"),
        ("adacontrast", {"teacher_momentum": 1.5}, "teacher_momentum is 1.5, expected 0 to 1"),
        ("dept-g", {"teacher_momentum": -1.0}, "teacher_momentum is -1.0, expected 0 to 1"),
        ("dept-g", {"max_grad_norm": 0.0}, "max_grad_norm is 0.0, expected a number above 0"),
        ("roid", {"momentum_src": -1.0}, "momentum_src is -1.0, expected 0 to 1"),
        ("roid", {"momentum_probs": 2.0}, "momentum_probs is 2.0, expected 0 to 1"),
        ("cmf", {"alpha": 1.5}, "alpha is 1.5, expected 0 to 1"),
        ("cmf", {"gamma": -0.5}, "gamma is -0.5, expected 0 to 1"),
        ("eata", {"fisher_weight": -1.0}, "fisher_weight is -1.0, expected 0 or more"),
        ("rotta", {"memory_size": 0}, "memory_size is 0, expected 1 or more"),
        ("sotta", {"update_frequency": 0}, "update_frequency is 0, expected 1 or more"),
        ("rotta", {"bn_momentum": 1.5}, "bn_momentum is 1.5, expected 0 to 1"),
        ("sotta", {"confidence_threshold": 1.5}, "confidence_threshold is 1.5, expected 0 to 1"),
        ("rmt", {"temperature": 0.0}, "temperature is 0.0, expected a number above 0"),
        ("rmt", {"projection_dim": 0}, "projection_dim is 0, expected 1 or more"),
        ("rmt", {"warmup_steps": -1}, "warmup_steps is -1, expected 0 or more"),
        ("rmt", {"optimizer": "adamw"}, "optimizer: expected 'sgd' or 'adam', got 'adamw'"),
        ("sotta", {"lr": -1.0}, "lr is -1.0, expected 0 or more"),
        ("note", {"memory_size": 0}, "memory_size is 0, expected 1 or more"),
        ("note", {"update_frequency": 0}, "update_frequency is 0, expected 1 or more"),
        ("note", {"bn_momentum": 1.5}, "bn_momentum is 1.5, expected 0 to 1"),
        ("tribe", {"bn_rate": 0.0}, "bn_rate is 0.0, expected a number above 0"),
        ("tribe", {"bn_share": -0.1}, "bn_share is -0.1, expected 0 to 1"),
        ("shot-im", {"nesterov": True, "momentum": 0.0}, "nesterov is true and momentum is 0"),
        ("foa", {"fitness_lambda": -1.0}, "fitness_lambda is -1.0, expected 0 or more"),
        ("tent", {"lr": float("nan")}, "lr: expected a number or none, got nan"),
        ("roid", {"lr": float("inf")}, "lr: expected a number, got inf"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, params: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        build_method(name, model_for(name), num_classes=10, params=needed(name) | params)
