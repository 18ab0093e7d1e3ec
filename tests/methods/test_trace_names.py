"""Names and shapes of the tensors in traces, on models of another width with other classes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from timm.models import resnet
from timm.models.resnet import ResNet
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tests.support.traces import CASES, GOLDEN, Trace
from tta_bench import build_method, settings
from tta_bench.registry import installed

CLASSES = 7
VIT_SIZES = {24: 36, 48: 72, 72: 108, 10: CLASSES}  # width, hidden width, three widths, classes


def other_model(name: str) -> nn.Module:
    config = json.loads(str(np.load(GOLDEN / name)["config"])) | {"num_classes": CLASSES}
    if "block" not in config:
        return VisionTransformer(**config | {"embed_dim": 36})
    block = getattr(resnet, config.pop("block"))
    return ResNet(block, **{key: tuple(value) if isinstance(value, list) else value for key, value in config.items()})


@pytest.mark.parametrize("case", CASES)
def test_another_model_has_the_names_of_the_trace(case: str) -> None:
    trace = Trace(case)
    recorded_on = trace.meta.get("model", "model.npz")
    sizes = VIT_SIZES if recorded_on == "model.npz" else {10: CLASSES}  # no layer has 10 channels

    def there(shape: torch.Size) -> tuple[int, ...]:
        return tuple(sizes.get(size, size) for size in shape)

    known = settings.defaults(installed().load(trace.method))
    method = build_method(
        trace.method,
        other_model(recorded_on),
        num_classes=CLASSES,
        batch_size=trace.meta["nominal_batch_size"],
        params={key: value for key, value in trace.meta.items() if key in known},
        initial_state={key: torch.zeros(there(v.shape), dtype=v.dtype) for key, v in trace.tensors("init/").items()},
    )
    found = {name: tuple(tensor.shape) for name, tensor in method.adapted_state().items()}
    final = {name: there(tensor.shape) for name, tensor in trace.tensors("final/").items()}
    last = {name: there(tensor.shape) for name, tensor in trace.tensors("last/").items()}
    assert found.items() >= {**final, **last}.items()
    assert trace.meta.get("final_is_sample") or found == final
    assert not any(name.startswith("fitness/") for name in trace.tensors("extra/")) or hasattr(method, "fitness")
