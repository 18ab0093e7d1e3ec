"""What our methods compute is what the authors' released code computed: see golden/README.md."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

from tta_bench import build_method

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.npz") if path.stem not in ("model", "inputs"))
SETTINGS = ("lr", "entropy_threshold", "fisher_weight", "redundancy_threshold", "shift_tokens")


def tensors(file: np.lib.npyio.NpzFile, prefix: str) -> dict[str, torch.Tensor]:
    return {key[len(prefix) :]: torch.tensor(file[key]) for key in file.files if key.startswith(prefix)}


def in_order(numbered: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return [numbered[key] for key in sorted(numbered, key=int)]


def golden_batches() -> list[torch.Tensor]:
    return in_order(tensors(np.load(GOLDEN / "inputs.npz"), "batch/"))


def golden_model(head_scale: float = 1.0) -> VisionTransformer:
    file = np.load(GOLDEN / "model.npz")
    model = VisionTransformer(**json.loads(str(file["config"])))
    model.load_state_dict({key: torch.tensor(file[key]) for key in file.files if key != "config"})
    with torch.no_grad():
        model.head.weight.mul_(head_scale)
        model.head.bias.mul_(head_scale)
    return model


@pytest.mark.parametrize("case", CASES)
def test_trace(case: str) -> None:
    trace, inputs = np.load(GOLDEN / f"{case}.npz"), np.load(GOLDEN / "inputs.npz")
    meta = json.loads(str(trace["meta"]))
    known = () if meta["method"] == "source" else SETTINGS[:1] if meta["method"] == "tent" else SETTINGS
    method = build_method(
        meta["method"],
        golden_model(meta.get("head_scale", 1.0)),
        num_classes=10,
        batch_size=meta["nominal_batch_size"],
        params={key: meta[key] for key in known if key in meta},
        initial_state=tensors(trace, "init/"),
    )
    if method.needs_source:
        method.prepare(in_order(tensors(inputs, "source/")))

    expected = in_order(tensors(trace, "logits/"))
    for i, batch in enumerate(golden_batches()):
        torch.testing.assert_close(method.adapt(batch), expected[i], atol=1e-4, rtol=0, msg=f"batch {i}")

    final, state = tensors(trace, "final/"), method.adapted_state()
    assert set(state) == set(final)
    for name, value in final.items():
        torch.testing.assert_close(state[name], value, atol=1e-4, rtol=0, msg=name)
    assert method.resets == meta["resets"]


def test_every_case_of_the_readme_is_here() -> None:
    assert len(CASES) == 11
