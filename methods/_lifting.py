"""DPAL's dual-path lifting: shift tokens and prediction networks around the blocks of a timm ViT.

The tokens of block l enter it in front of the class token. Their outputs show the effect of the domain shift. The
prediction network of that block reads them, and its answer is subtracted from the class token. Done by
hooks that live as long as one forward, so timm's own forward, pooling and head do the rest, and the model
stays usable without the tokens.

How the prediction networks start (`predictor_init`) is not said in the paper:

| start | the networks | first answers |
|---|---|---|
| `zeros` | all weights 0, as released; only the last bias can learn | the token alone disturbs the source model |
| `default` | as torch starts a Linear | token and random shifts disturb it |
| `small` | as `default`, the second layer normal with deviation 0.02 | the token, and small random shifts |
| `source` | as `default`, each answer times a learned gate that starts at 0 | those of the source model |

With `source` the tokens see all others and no other sees them, so they cannot disturb; the gate lets shifts in as far
as the entropy wants them. The similarity loss is about directions, so it looks at the answers before the gate, where
it is finite from the first batch on. Zeros in the last layer alone would start at the source model as well, but there
the similarity has no direction and its gradient explodes.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tta_bench.errors import UserError

PredictorInit = Literal["zeros", "default", "small", "source"]


class Lifting:
    """A VisionTransformer seen through shift tokens [L, tokens, d] and one prediction network per block.

    Calling it gives the logits; `shifts` then holds what the networks predicted, [B, d] for each block.
    """

    def __init__(
        self, model: nn.Module, *, tokens: int, hidden: int | None, predictor_init: PredictorInit, seed: int
    ) -> None:
        self.model = model
        self.vit = liftable(model)
        self.count = tokens
        self._masked = maskable_attentions(self.vit) if predictor_init == "source" else []
        like = next(self.vit.parameters())
        # A private generator on the CPU: the same start on every device, and the global one is left alone.
        generator = torch.Generator().manual_seed(seed)
        self.tokens = _initial_tokens(self.vit, tokens, generator).to(like)
        width = self.vit.embed_dim
        shape = tokens * width, hidden or width, width
        self.predictors = [_initial_predictor(*shape, predictor_init, generator, like) for _ in self.vit.blocks]
        self.shifts: list[Tensor] = []

    def predictor_parameters(self) -> dict[str, Tensor]:
        """All weights of the prediction networks, by names like `predictors.0.fc1.weight`."""
        numbered = enumerate(self.predictors)
        return {f"predictors.{i}.{name}": tensor for i, part in numbered for name, tensor in part.items()}

    def __call__(self, batch: Tensor) -> Tensor:
        self.shifts = []
        hooks = [self.vit.blocks[0].register_forward_pre_hook(self._enter)]
        hooks += [block.register_forward_hook(self._leave) for block in self.vit.blocks]
        hooks += [part.register_forward_pre_hook(self._hide_tokens, with_kwargs=True) for part in self._masked]
        try:
            logits: Tensor = self.model(batch)
        finally:
            for hook in hooks:
                hook.remove()
        return logits

    def _enter(self, block: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        sequence, *rest = args
        return (self._joined(self._tokens_for(0, sequence), sequence), *rest)

    def _leave(self, block: nn.Module, args: tuple[Any, ...], sequence: Tensor) -> Tensor:
        """Subtract the predicted shift from the class token; swap the tokens for those of the next block."""
        layer = len(self.shifts)
        rest = sequence.shape[1] - self.count - 1
        if self._masked:
            class_token, others, tokens = sequence.split([1, rest, self.count], dim=1)
        else:
            tokens, class_token, others = sequence.split([self.count, 1, rest], dim=1)
        shift = self._predict(layer, tokens.flatten(1))
        self.shifts.append(shift)
        gate = self.predictors[layer].get("gate")
        class_token = class_token - (shift if gate is None else gate * shift)[:, None]
        if layer + 1 == len(self.predictors):
            return torch.cat([class_token, others], dim=1)
        return self._joined(self._tokens_for(layer + 1, sequence), class_token, others)

    def _joined(self, tokens: Tensor, *own: Tensor) -> Tensor:
        """One sequence, tokens in front; unseen ones last, where they leave the rounding of all others as it was."""
        return torch.cat([*own, tokens] if self._masked else [tokens, *own], dim=1)

    def _hide_tokens(self, attention: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Let the shift tokens see everything, and nothing but them see the shift tokens."""
        length = args[0].shape[1]
        seen = torch.ones(length, length, dtype=torch.bool, device=args[0].device)
        seen[: -self.count, -self.count :] = False
        return args, {**named, "attn_mask": seen}

    def _tokens_for(self, layer: int, sequence: Tensor) -> Tensor:
        return self.tokens[layer].expand(len(sequence), -1, -1).to(sequence.dtype)

    def _predict(self, layer: int, tokens: Tensor) -> Tensor:
        weights = self.predictors[layer]
        hidden = F.gelu(F.linear(tokens, weights["fc1.weight"], weights["fc1.bias"]))
        return F.gelu(F.linear(hidden, weights["fc2.weight"], weights["fc2.bias"]))


def liftable(model: nn.Module) -> VisionTransformer:
    """The VisionTransformer in a model, or the reason why DPAL cannot work on it."""
    found = [module for module in model.modules() if isinstance(module, VisionTransformer)]
    if len(found) != 1:
        raise UserError(f"dpal needs a timm VisionTransformer, {type(model).__name__} is none")
    vit = found[0]
    if vit.cls_token is None:
        raise UserError("dpal corrects the class token, and this VisionTransformer has none")
    pooling = vit.global_pool if vit.attn_pool is None else "attention"
    if pooling != "token":
        raise UserError(f"dpal corrects the class token, and this VisionTransformer uses '{pooling}' pooling")
    if not len(vit.blocks):
        raise UserError("dpal puts its tokens before blocks, and this VisionTransformer has none")
    if vit.grad_checkpointing:
        raise UserError("dpal needs its tokens in every pass: switch this model's gradient checkpointing off")
    return vit


def maskable_attentions(vit: VisionTransformer) -> list[nn.Module]:
    """The attention of each block, if it takes a mask: that is how tokens stay unseen."""
    found = [getattr(block, "attn", None) for block in vit.blocks]
    parts = [part for part in found if part and "attn_mask" in inspect.signature(part.forward).parameters]
    if len(parts) < len(found):
        raise UserError(
            "dpal: predictor_init 'source' needs an attention that takes a mask, and this model's takes none: "
            "choose another start, or a newer timm"
        )
    return parts


def mean_similarity(shifts: list[Tensor]) -> Tensor:
    """Mean cosine similarity of all pairs of samples (each with itself too), averaged over blocks.

    The mean over pairs is the squared length of the mean unit vector: O(B d) instead of O(B^2 d).
    """
    units = F.normalize(torch.stack(shifts).float(), dim=2, eps=1e-8)
    return units.mean(1).square().sum(1).mean()


def _initial_tokens(vit: VisionTransformer, tokens: int, generator: torch.Generator) -> Tensor:
    height, width = vit.patch_embed.patch_size
    bound = math.sqrt(6 / (3 * height * width + vit.embed_dim))
    return torch.empty(len(vit.blocks), tokens, vit.embed_dim).uniform_(-bound, bound, generator=generator)


def _initial_predictor(
    inputs: int, hidden: int, width: int, init: PredictorInit, generator: torch.Generator, like: Tensor
) -> dict[str, Tensor]:
    """Two linear layers, started as the table above says."""
    predictor: dict[str, Tensor] = {}
    for name, fan_in, fan_out in (("fc1", inputs, hidden), ("fc2", hidden, width)):
        weight, bias = torch.zeros(fan_out, fan_in), torch.zeros(fan_out)
        if init == "small" and name == "fc2":
            weight.normal_(0, 0.02, generator=generator)
        elif init != "zeros":
            bound = 1 / math.sqrt(fan_in)
            weight.uniform_(-bound, bound, generator=generator)
            bias.uniform_(-bound, bound, generator=generator)
        predictor |= {f"{name}.weight": weight.to(like), f"{name}.bias": bias.to(like)}
    return predictor | ({"gate": torch.zeros(1).to(like)} if init == "source" else {})
