"""A small timm ViT, and its weights in files of every accepted form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

TINY = "test_vit"  # timm's own small ViT for tests: 6 blocks, 64 wide, 160 px


def augreg(network: VisionTransformer) -> dict[str, np.ndarray]:
    """A ViT's weights under the names and in the shapes of the AugReg release (Flax)."""
    w = {key: tensor.detach().numpy() for key, tensor in network.state_dict().items()}
    heads, width = network.blocks[0].attn.num_heads, network.embed_dim
    out = {
        "embedding/kernel": w["patch_embed.proj.weight"].transpose(2, 3, 1, 0),
        "embedding/bias": w["patch_embed.proj.bias"],
        "cls": w["cls_token"],
        "Transformer/posembed_input/pos_embedding": w["pos_embed"],
        "Transformer/encoder_norm/scale": w["norm.weight"],
        "Transformer/encoder_norm/bias": w["norm.bias"],
        "head/kernel": w["head.weight"].T,
        "head/bias": w["head.bias"],
    }
    for i in range(len(network.blocks)):
        theirs, ours = f"Transformer/encoderblock_{i}", f"blocks.{i}"
        for number, norm in ((0, "norm1"), (2, "norm2")):
            out[f"{theirs}/LayerNorm_{number}/scale"] = w[f"{ours}.{norm}.weight"]
            out[f"{theirs}/LayerNorm_{number}/bias"] = w[f"{ours}.{norm}.bias"]
        attention = f"{theirs}/MultiHeadDotProductAttention_1"
        thirds = zip(
            ("query", "key", "value"),
            np.split(w[f"{ours}.attn.qkv.weight"], 3),
            np.split(w[f"{ours}.attn.qkv.bias"], 3),
            strict=True,
        )
        for part, weight, bias in thirds:
            out[f"{attention}/{part}/kernel"] = weight.T.reshape(width, heads, -1)
            out[f"{attention}/{part}/bias"] = bias.reshape(heads, -1)
        out[f"{attention}/out/kernel"] = w[f"{ours}.attn.proj.weight"].T.reshape(heads, -1, width)
        out[f"{attention}/out/bias"] = w[f"{ours}.attn.proj.bias"]
        for number in (0, 1):
            dense = f"{theirs}/MlpBlock_3/Dense_{number}"
            out[f"{dense}/kernel"] = w[f"{ours}.mlp.fc{number + 1}.weight"].T
            out[f"{dense}/bias"] = w[f"{ours}.mlp.fc{number + 1}.bias"]
    return out


def saved(network: VisionTransformer, form: str, folder: Path) -> Path:
    state: Any = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    path = folder / f"weights.{form.split()[0]}"
    if form == "safetensors":
        save_file(state, path)
    elif form == "npz":
        np.savez(path, **augreg(network))
    else:
        if "parallel" in form:
            state = {f"module.{key}": tensor for key, tensor in state.items()}
        if "wrapped" in form:
            state = {"state_dict": state, "epoch": 3}
        if "model" in form:
            state = {"model": state}
        torch.save(state, path)
    return path
