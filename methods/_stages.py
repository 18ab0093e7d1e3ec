"""DePT's prompts and projection heads around a timm ViT, and the losses that make a student agree with its teacher.

The blocks form stages of equal length. Each stage has its own prompts, in front of the class token; what comes out of
them is kept when the next stage swaps them for its own. A projection head per stage, as in DINO, maps prompts, and
the last one the class token too, to a space in which student and teacher are compared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError

from ._head import Head
from ._prompts import class_token_vit

HEAD = 2048, 256, 2048  # hidden, bottleneck and output width of a projection head, as published for tokens of 768


class Seen(NamedTuple):
    """What one forward gives: logits, the class token that made them, and the prompts as each stage leaves them."""

    logits: Tensor
    features: Tensor
    prompts: list[Tensor]

    def halves(self) -> tuple[Seen, Seen]:
        """What the first half of the batch gave, and the second."""
        prompts = [part.chunk(2) for part in self.prompts]
        pairs = zip(self.logits.chunk(2), self.features.chunk(2), strict=True)
        one, other = (Seen(*pair, [part[i] for part in prompts]) for i, pair in enumerate(pairs))
        return one, other


class Projected(NamedTuple):
    """Class token [B, k] and prompts [B, n, k] of each stage, after their heads."""

    features: Tensor
    prompts: list[Tensor]


class Staged:
    """A VisionTransformer seen through the prompts in `tensors`: `prompts.STAGE` and `heads.STAGE.LAYER.weight`.

    The tensors are live: whoever changes them changes the next forward. Hooks live as long as one forward.
    """

    def __init__(self, model: nn.Module, tensors: Mapping[str, Tensor], *, method: str, num_classes: int) -> None:
        self.vit = class_token_vit(model, method)
        self.head = Head(model, method=method, num_classes=num_classes, lean=False)  # prompts come first
        self.tensors = tensors
        self.stages = sum(name.startswith("prompts.") for name in tensors)
        blocks, width = len(self.vit.blocks), self.vit.embed_dim
        if blocks % self.stages:
            raise UserError(f"{method}: {blocks} blocks are no {self.stages} stages of equal length")
        if tensors["prompts.0"].shape[-1] != width:
            raise UserError(f"{method}: prompts are {tensors['prompts.0'].shape[-1]} wide, the model's tokens {width}")
        self.count = len(tensors["prompts.0"])
        self._starts = list(self.vit.blocks)[:: blocks // self.stages]
        self._outputs: list[Tensor] = []

    def __call__(self, batch: Tensor) -> Seen:
        self._outputs = []
        hooks = [block.register_forward_pre_hook(self._enter_stage) for block in self._starts]
        hooks.append(self.vit.blocks[-1].register_forward_hook(self._leave))
        try:
            logits, features = self.head.look(batch)
        finally:
            for hook in hooks:
                hook.remove()
        *outputs, last = self._outputs
        return Seen(logits.float(), features.float(), [*outputs, self.vit.norm(last)])

    def project(self, seen: Seen) -> Projected:
        parts = [self._head(stage, prompts) for stage, prompts in enumerate(seen.prompts)]
        return Projected(self._head(self.stages - 1, seen.features), parts)

    def _enter_stage(self, block: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        sequence, *rest = args
        stage = self._starts.index(block)
        if stage:
            self._outputs.append(sequence[:, : self.count])
            sequence = sequence[:, self.count :]
        prompts = self.tensors[f"prompts.{stage}"].expand(len(sequence), -1, -1).to(sequence.dtype)
        return (torch.cat([prompts, sequence], dim=1), *rest)

    def _leave(self, block: nn.Module, args: tuple[Any, ...], sequence: Tensor) -> Tensor:
        self._outputs.append(sequence[:, : self.count])
        return sequence[:, self.count :]

    def _head(self, stage: int, x: Tensor) -> Tensor:
        layer = {name: self.tensors[f"heads.{stage}.{name}"] for name in LAYERS}
        hidden = F.gelu(F.linear(x, layer["fc1.weight"], layer["fc1.bias"]))
        unit = F.normalize(F.linear(hidden, layer["fc2.weight"], layer["fc2.bias"]).float(), dim=-1)
        return F.linear(unit, F.normalize(layer["last.weight"].float(), dim=1))


LAYERS = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "last.weight")


def initial_tensors(width: int, *, stages: int, prompts: int, seed: int) -> dict[str, Tensor]:
    """Prompts uniform as Xavier and Glorot have it, heads normal, as published; heads grow with the model."""
    draw = torch.Generator().manual_seed(seed)
    bound = math.sqrt(6 / ((prompts + 1) * width))  # torch takes the two last sizes of [1, prompts, width] for a kernel
    found: dict[str, Tensor] = {}
    for stage in range(stages):
        found[f"prompts.{stage}"] = torch.empty(prompts, width).uniform_(-bound, bound, generator=draw)
        hidden, bottleneck, out = (max(1, round(size * width / 768)) for size in HEAD)
        sizes = (width, hidden), (hidden, bottleneck), (bottleneck, out)
        for name, (inputs, outputs) in zip(("fc1", "fc2", "last"), sizes, strict=True):
            weight = torch.empty(outputs, inputs)
            found[f"heads.{stage}.{name}.weight"] = weight
            if name == "last":
                weight.uniform_(-1 / math.sqrt(inputs), 1 / math.sqrt(inputs), generator=draw)
            else:
                weight.normal_(0, 0.02, generator=draw)
                found[f"heads.{stage}.{name}.bias"] = torch.zeros(outputs)
    return found


def agreement(student: Projected, teacher: Projected, centre: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Losses of class tokens (cross-entropy, the teacher's centred and sharpened) and of prompts (cosine)."""
    wanted = ((teacher.features - centre) / temperature).softmax(-1)
    tokens = -(wanted * (student.features / 0.1).log_softmax(-1)).sum(-1).mean()
    pairs = zip(student.prompts, teacher.prompts, strict=True)
    apart = torch.stack([1 - F.cosine_similarity(one, other, dim=-1).mean() for one, other in pairs])
    return tokens, (stage_weights(apart) * apart).sum()


def likeness(student: Projected) -> Tensor:
    """How alike the prompts of an image are: minus their mean cosine distance, the same for each with itself 0."""
    found = []
    for prompts in student.prompts:
        units = F.normalize(prompts, dim=-1)
        cosines = units @ units.transpose(1, 2)
        found.append((cosines - 1).masked_fill(torch.eye(cosines.shape[1], dtype=torch.bool, device=units.device), 0))
    means = torch.stack([distance.mean() for distance in found])
    return (stage_weights(means) * means).sum()


def stage_weights(like: Tensor) -> Tensor:
    """A weight for each of some stages. Later ones count more: e to the power of their number, together 1."""
    return torch.arange(1, len(like) + 1, dtype=torch.float32, device=like.device).softmax(0).to(like.dtype)


def fingerprint(model: nn.Module, method: str) -> Tensor:
    """A hash of the frozen part of a model: prompts belong to the model that they were trained for."""
    found = hashlib.sha256()
    vit = class_token_vit(model, method)
    for part in (vit.patch_embed, vit.blocks, vit.norm):
        for name, tensor in sorted(part.state_dict().items()):
            found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().data)
    return torch.tensor(list(found.digest()), dtype=torch.uint8)
