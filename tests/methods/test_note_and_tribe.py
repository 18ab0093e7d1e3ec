"""NOTE and TRIBE: passes that are counted, and the remark about NOTE's source model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

from tests.support.cli import Cli
from tests.support.small import small_resnet, stream
from tta_bench import build_method
from tta_bench.measure.cost import CostCounter

REMARK = "the source model was not trained with the normalisation that it expects (IABN)"


def test_updates_of_note_inside_a_batch_are_counted() -> None:
    """After images 3 and 6 of the first batch, and after 1, 4 and 7 of the second; the memory has four places."""
    method = build_method(
        "note", small_resnet(), num_classes=10, batch_size=8, params={"update_frequency": 3, "memory_size": 4}
    )
    for batch, learned in zip(stream(count=2, pixels=32), ([3, 4], [4, 4, 4]), strict=True):
        with CostCounter(method.model) as counted:
            method.adapt(batch)
        assert counted.sample_forwards == 8 + sum(learned)
        assert counted.sample_backwards == sum(learned)
        assert counted.optimizer_steps == len(learned)


@pytest.mark.parametrize(("threshold", "backwards"), [(100.0, 16), (0.0, 0)])
def test_passes_of_tribe_are_counted(threshold: float, backwards: int) -> None:
    """Without a confident image there is no backward; Adam steps by its momentum all the same."""
    method = build_method(
        "tribe", small_resnet(), num_classes=10, batch_size=8, params={"entropy_threshold": threshold}
    )
    with CostCounter(method.model) as counted:
        method.adapt(stream(count=1, pixels=32)[0])
    assert (counted.sample_forwards, counted.sample_backwards) == (32, backwards)
    assert counted.optimizer_steps == 1


def test_record_and_table_say_that_the_source_model_lacks_iabn(cli: Cli, tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(timm.create_model("test_resnet", num_classes=10).state_dict(), tmp_path / "resnet.safetensors")
    words = ("run", "--suite", "digits-c-5", "--tasks", "contrast", "--limit", 16, "--out", tmp_path / "run")
    model = f"test_resnet={tmp_path / 'resnet.safetensors'}"
    status, shown, err = cli(*words, "--methods", "source,note", "--model", model)
    assert status == 0, err
    assert f"WARNING note: {REMARK}." in shown
    records = [json.loads(path.read_text()) for path in (tmp_path / "run" / "cells").glob("*.json")]
    assert sorted(record["remarks"] for record in records) == [[], [REMARK]]
