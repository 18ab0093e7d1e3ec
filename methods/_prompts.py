"""Prompt tokens in the input sequence of a timm ViT, and the class token's features from all of its blocks.

Done by hooks that live as long as one forward, so the model stays usable without the prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from tta_bench.errors import UserError

from ._head import Head


class Prompted:
    """A VisionTransformer with prompts between the class token and the rest, and none of the positions."""

    def __init__(self, model: nn.Module, *, method: str, num_classes: int) -> None:
        self.vit = class_token_vit(model, method)
        self.head = Head(model, method=method, num_classes=num_classes)
        self.width = len(self.vit.blocks) * self.vit.embed_dim
        self._prompts: Tensor | None = None
        self._patches: Tensor | None = None
        self._class_tokens: list[Tensor] = []

    def __call__(self, batch: Tensor, prompts: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits, and the class token as each block leaves it, normed: [B, blocks * d], the classifier's input last.

        The norm is the one that comes next in the model: that of the following block.
        """
        self._prompts, self._class_tokens = prompts, []
        hooks = [self.vit.norm_pre.register_forward_pre_hook(self._insert)] if prompts is not None else []
        hooks += [block.norm1.register_forward_hook(self._keep) for block in self.vit.blocks[1:]]
        try:
            logits, last = self.head.look(batch)
        finally:
            for hook in hooks:
                hook.remove()
        return logits, torch.cat([*self._class_tokens, last], dim=1).float()

    @contextmanager
    def same_images(self) -> Iterator[None]:
        """Within the block all forwards are of one batch, whose patches are embedded once.

        Prompts come after that embedding, so it is the same whatever they are.
        """
        embedding = self.vit.patch_embed
        embedding.forward = self._embed
        try:
            yield
        finally:
            del embedding.forward  # the one of its class is in force again
            self._patches = None

    def initial_prompts(self, count: int, seed: int) -> Tensor:
        """[1, count, d], uniform as published; from a private generator on the CPU, so the same on every device."""
        height, width = self.vit.patch_embed.patch_size
        bound = math.sqrt(6 / (3 * height * width + self.vit.embed_dim))
        generator = torch.Generator().manual_seed(seed)
        prompts = torch.empty(1, count, self.vit.embed_dim).uniform_(-bound, bound, generator=generator)
        return prompts.to(next(self.vit.parameters()).device)

    def _embed(self, images: Tensor) -> Tensor:
        if self._patches is None:
            embedding = self.vit.patch_embed
            self._patches = type(embedding).forward(embedding, images)
        return self._patches

    def _insert(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        assert self._prompts is not None
        sequence, *rest = args
        prompts = self._prompts.expand(len(sequence), -1, -1).to(sequence.dtype)
        return (torch.cat([sequence[:, :1], prompts, sequence[:, 1:]], dim=1), *rest)

    def _keep(self, module: nn.Module, args: tuple[Any, ...], sequence: Tensor) -> None:
        self._class_tokens.append(sequence[:, 0])


def class_token_vit(model: nn.Module, method: str) -> Any:
    """The VisionTransformer in a model, or the reason why prompts cannot steer its class token."""
    found = [module for module in model.modules() if isinstance(module, VisionTransformer)]
    if len(found) != 1:
        raise UserError(f"{method} needs a timm VisionTransformer, {type(model).__name__} is none")
    vit: Any = found[0]
    if vit.cls_token is None or vit.global_pool != "token" or vit.attn_pool is not None:
        raise UserError(f"{method} steers the class token, and this VisionTransformer does not classify by one")
    if not len(vit.blocks) or not all(type(block) is Block for block in vit.blocks):
        raise UserError(f"{method} needs blocks that norm their input first, as those of a plain VisionTransformer do")
    return vit
