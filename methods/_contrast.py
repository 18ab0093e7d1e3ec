"""Contrast between views of images, as a small learned projector sees them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from ._draws import Draws


def first_projector(classifier: Tensor, width: int, draws: Draws) -> dict[str, Tensor]:
    """Two linear layers that start as torch's do."""
    found = {}
    for layer, inputs in (("0", classifier.shape[1]), ("2", width)):
        bound = inputs**-0.5
        found[f"projector.{layer}.weight"] = draws.uniforms(-bound, bound, width, inputs)
        found[f"projector.{layer}.bias"] = draws.uniforms(-bound, bound, width)
    return {name: tensor.to(classifier).requires_grad_() for name, tensor in found.items()}


def projected(features: Tensor, projector: Mapping[str, Tensor]) -> Tensor:
    first, first_bias, second, second_bias = projector.values()
    return F.linear(F.linear(features, first, first_bias).relu(), second, second_bias)


def contrast(views: Tensor, temperature: float) -> Tensor:
    """How badly the views [k, B, d] of an image find each other among all others, as the mean cross-entropy."""
    count, images, _ = views.shape
    rows = F.normalize(views.flatten(0, 1), dim=1)
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    log_p = (rows @ rows.T / temperature).masked_fill(itself, -torch.inf).log_softmax(1)
    # The columns of an image's other views, [k B, k - 1].
    view = torch.arange(count, device=rows.device).repeat_interleave(images)[:, None]
    other = torch.arange(count - 1, device=rows.device)
    other = other + (other >= view)
    image = torch.arange(images, device=rows.device).repeat(count)[:, None]
    return -log_p.gather(1, other * images + image).mean()
