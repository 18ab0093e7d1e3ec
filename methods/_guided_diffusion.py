"""Weights in the layout of OpenAI's guided-diffusion (`256x256_diffusion_uncond.pt`) for a diffusers UNet2DModel.

The layout numbers all blocks of a path in a row: `r` residual blocks per level, then a block that halves the size.
Depth, widths and the levels with attention follow from names and shapes. What they cannot show is as in the published
model: attention heads of 64 channels, and residual blocks that change the size themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from tta_bench.errors import UserError

HEAD_CHANNELS = 64
PUBLISHED_SIZE = 256
RESIDUAL = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
PLAIN = {
    "time_embed.0": "time_embedding.linear_1",
    "time_embed.2": "time_embedding.linear_2",
    "input_blocks.0.0": "conv_in",
    "out.0": "conv_norm_out",
    "out.2": "conv_out",
}
Complain = Callable[[str], UserError]


def converted(state: Mapping[str, Tensor], where: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Configuration and weights of the same network as a diffusers UNet2DModel."""

    def complain(what: str) -> UserError:
        return UserError(f"{where}: {what}; expected an unconditional guided-diffusion U-Net, as DDA published it")

    if "input_blocks.0.0.weight" not in state or "middle_block.1.qkv.weight" not in state:
        raise complain("has no 'input_blocks.0.0.weight' or 'middle_block.1.qkv.weight'")
    if "label_emb.weight" in state:
        raise complain("is conditional on classes ('label_emb.weight')")
    if any(name.endswith((".op.weight", ".conv.weight")) for name in state):
        raise complain("changes sizes by convolutions, not in residual blocks")
    if any(name.endswith(".qkv.weight") and len(tensor) % (3 * HEAD_CHANNELS) for name, tensor in state.items()):
        raise complain(f"has an attention that no heads of {HEAD_CHANNELS} channels make up")
    per_level, levels = _shape(state, complain)
    return _config(state, per_level, levels), _renamed(state, per_level, levels, complain)


def _shape(state: Mapping[str, Tensor], complain: Complain) -> tuple[int, int]:
    """Residual blocks per level on the way down, and levels; from the first output block with two residual blocks."""
    blocks = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("output_blocks."))
    doubled = (k for k in range(blocks) if any(f"output_blocks.{k}.{i}.in_layers.0.weight" in state for i in (1, 2)))
    per_level = next(doubled, blocks - 1)
    if blocks % (per_level + 1):
        raise complain(f"has {blocks} output blocks, which are no whole number of levels of {per_level + 1}")
    return per_level, blocks // (per_level + 1)


def _config(state: Mapping[str, Tensor], per_level: int, levels: int) -> dict[str, Any]:
    firsts = [f"input_blocks.{1 + level * (per_level + 1)}" for level in range(levels)]
    widths = [len(state[f"{first}.0.in_layers.2.weight"]) for first in firsts]
    attentive = [f"{first}.1.qkv.weight" in state for first in firsts]
    scaled = len(state[f"{firsts[0]}.0.emb_layers.1.weight"]) == 2 * widths[0]
    return {
        "sample_size": PUBLISHED_SIZE,
        "in_channels": state["input_blocks.0.0.weight"].shape[1],
        "out_channels": len(state["out.2.weight"]),
        "block_out_channels": tuple(widths),
        "layers_per_block": per_level,
        "down_block_types": tuple("AttnDownBlock2D" if has else "ResnetDownsampleBlock2D" for has in attentive),
        "up_block_types": tuple("AttnUpBlock2D" if has else "ResnetUpsampleBlock2D" for has in reversed(attentive)),
        "downsample_type": "resnet",
        "upsample_type": "resnet",
        "attention_head_dim": HEAD_CHANNELS,
        "attn_norm_num_groups": 32,  # diffusers leaves the norm of the middle attention out otherwise
        "resnet_time_scale_shift": "scale_shift" if scaled else "default",
        "flip_sin_to_cos": True,
        "freq_shift": 0,
    }


def _renamed(state: Mapping[str, Tensor], per_level: int, levels: int, complain: Complain) -> dict[str, Tensor]:
    parts = {**PLAIN, **_parts(state, per_level, levels)}
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        place, _, leaf = name.rpartition(".")
        if place in parts:
            found[f"{parts[place]}.{leaf}"] = tensor
            continue
        place, _, inner = _split(place)
        if place not in parts:
            raise complain(f"has '{name}', which belongs to no block of {levels} levels")
        found.update(_in_block(parts[place], inner, leaf, tensor))
    return found


def _split(place: str) -> tuple[str, str, str]:
    """A block's own name (`middle_block.1`, `input_blocks.3.0`) and the part inside it."""
    words = place.split(".")
    size = 2 if words[0] == "middle_block" else 3
    return ".".join(words[:size]), ".", ".".join(words[size:])


def _in_block(block: str, inner: str, leaf: str, tensor: Tensor) -> dict[str, Tensor]:
    if inner in RESIDUAL:
        return {f"{block}.{RESIDUAL[inner]}.{leaf}": tensor}
    if inner == "norm":
        return {f"{block}.group_norm.{leaf}": tensor}
    flat = tensor.squeeze(-1) if leaf == "weight" else tensor  # a 1x1 convolution is a linear layer
    if inner == "proj_out":
        return {f"{block}.to_out.0.{leaf}": flat}
    # The layout keeps query, key and value of a head together; diffusers wants all queries first.
    width = len(flat) // 3
    heads = flat.reshape(width // HEAD_CHANNELS, 3, HEAD_CHANNELS, *flat.shape[1:])
    return {f"{block}.to_{part}.{leaf}": heads[:, i].reshape(width, *flat.shape[1:]) for i, part in enumerate("qkv")}


def _parts(state: Mapping[str, Tensor], per_level: int, levels: int) -> dict[str, str]:
    """Our name for each residual and attention block of the layout."""
    parts = {
        "middle_block.0": "mid_block.resnets.0",
        "middle_block.1": "mid_block.attentions.0",
        "middle_block.2": "mid_block.resnets.1",
    }
    for number in range(levels * (per_level + 1)):
        level, place = divmod(number, per_level + 1)
        last = place == per_level
        down = f"input_blocks.{number + 1}"
        parts[f"{down}.0"] = f"down_blocks.{level}.{'downsamplers.0' if last else f'resnets.{place}'}"
        parts[f"{down}.1"] = f"down_blocks.{level}.attentions.{place}"
        up = f"output_blocks.{number}"
        parts[f"{up}.0"] = f"up_blocks.{level}.resnets.{place}"
        attends = f"{up}.1.qkv.weight" in state
        if attends:
            parts[f"{up}.1"] = f"up_blocks.{level}.attentions.{place}"
        parts[f"{up}.{2 if attends else 1}"] = f"up_blocks.{level}.upsamplers.0"
    return parts
