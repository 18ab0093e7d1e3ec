"""What the harness expects of a method, checked for every registered one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.small import small_vit, stream
from tta_bench import Method, build_method, settings
from tta_bench.errors import UserError
from tta_bench.registry import installed
from tta_bench.testing import check_method, tiny_resnet

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
def test_keeps_every_promise(name: str) -> None:
    check_method(name)


@every_method
def test_says_what_it_is(name: str) -> None:
    cls = installed().load(name)
    assert cls.paper
    assert cls.adapts
    assert cls.passes


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
    cls = installed().load(name)
    try:
        method = cls(small_vit(), num_classes=10, batch_size=8)
    except UserError:  # takes models with BatchNorm only
        method = cls(tiny_resnet(), num_classes=10, batch_size=8)
    if method.adapted_parameters():
        with pytest.raises(UserError, match=r"has no snapshot to return to: build it with tta_bench\.build_method"):
            method.reset()
        method.remember()
    method.reset()


def test_eata_needs_source_data_first() -> None:
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
