"""Captures activations of a VisionTransformer during one forward pass, with hooks that are removed afterwards.

A method may have added tokens to the sequence, in front or in between: the model's own are found by their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tta_bench.errors import UserError


@dataclass(frozen=True)
class Activations:
    """The activations of one forward pass."""

    features: dict[str, Tensor]  # what `forward` returned
    attention: Tensor  # [B, h, w]: of the class token to each patch in the last block, mean over heads
    patches: tuple[Tensor, Tensor]  # [B, h*w, d] each: patch tokens after the first and the last block


def capture(model: nn.Module, forward: Callable[[Tensor], dict[str, Tensor]], batch: Tensor) -> Activations:
    """Run `forward`, which may call the model in its own way, and capture what happens inside."""
    vit = require_vit(model)
    seen: dict[str, Tensor] = {}
    with _hooks(vit, seen), torch.no_grad():
        features = forward(batch)
    class_token, patches = _own_tokens(vit, seen["plain"], seen["sequence"])
    height, width = vit.patch_embed.grid_size
    weights = seen["attention"][:, :, class_token, patches].mean(1)
    return Activations(
        features={name: tensor.detach().float() for name, tensor in features.items()},
        attention=weights.reshape(-1, height, width).float()[: len(batch)],
        patches=(seen["first"][: len(batch), patches].float(), seen["last"][: len(batch), patches].float()),
    )


def require_vit(model: nn.Module) -> VisionTransformer:
    """The VisionTransformer in a model; UserError if it has no class-token attention to inspect."""
    found = [module for module in model.modules() if isinstance(module, VisionTransformer)]
    if len(found) != 1:
        raise UserError(f"inspect needs a timm VisionTransformer, {type(model).__name__} is not one")
    (vit,) = found
    if vit.cls_token is None:
        raise UserError("inspect needs a class token, this VisionTransformer has none")
    attention = getattr(vit.blocks[-1], "attn", None)
    if not (hasattr(attention, "attn_drop") and hasattr(attention, "fused_attn")):
        raise UserError(
            "inspect needs timm's usual attention in the last block, this VisionTransformer has another kind"
        )
    return vit


@contextmanager
def _hooks(vit: VisionTransformer, seen: dict[str, Tensor]) -> Iterator[None]:
    blocks: Any = vit.blocks
    attention: Any = blocks[-1].attn

    def output(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda module, args, out: seen.update({name: out.detach()})

    def entering(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda module, args: seen.update({name: args[0].detach()})

    hooks: list[RemovableHandle] = [
        vit.norm_pre.register_forward_hook(output("plain")),
        blocks[0].norm1.register_forward_pre_hook(entering("sequence")),
        blocks[0].register_forward_hook(output("first")),
        blocks[-1].register_forward_hook(output("last")),
        attention.attn_drop.register_forward_pre_hook(entering("attention")),
    ]
    fused, attention.fused_attn = attention.fused_attn, False  # the fused kernel does not expose its weights
    try:
        yield
    finally:
        attention.fused_attn = fused
        for hook in hooks:
            hook.remove()


def _own_tokens(vit: VisionTransformer, plain: Tensor, sequence: Tensor) -> tuple[int, list[int]]:
    """The positions of the class token and the patches in a sequence that may hold other tokens, too."""
    height, width = vit.patch_embed.grid_size
    positions = []
    for token in [plain[0, 0], *plain[0, plain.shape[1] - height * width :]]:
        same = (sequence[0] == token).all(1).nonzero()
        if not len(same):
            raise UserError(
                "inspect cannot find the model's own tokens: the method changes them before the first block"
            )
        positions.append(int(same[0]))
    return positions[0], positions[1:]
