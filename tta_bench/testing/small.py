"""A small model and small streams, fast on any machine and the same on all."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

CLASSES, BATCH, PIXELS = 10, 8, 16


def tiny_vit(seed: int = 3, num_classes: int = CLASSES, **changes: object) -> Any:
    """A 12-block ViT for 16 px images, random but perturbed, and certain enough of some samples to learn from them."""
    from timm.models.vision_transformer import VisionTransformer

    config: dict[str, Any] = {
        "img_size": PIXELS,
        "patch_size": 8,
        "embed_dim": 24,
        "depth": 12,
        "num_heads": 3,
        "mlp_ratio": 2.0,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = VisionTransformer(**{**config, "num_classes": num_classes, **changes})
        stir(model)
    return model.eval()


def tiny_resnet(norm: str = "batch") -> Any:
    """A ResNet whose last stage is one pixel small at 32 px: the hardest case for statistics of a single image."""
    from timm.layers.norm import GroupNorm
    from timm.models import resnet

    block: Any = resnet.BasicBlock
    layer: Any = {"batch": nn.BatchNorm2d, "group": partial(GroupNorm, num_groups=4)}[norm]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = resnet.ResNet(block, (1, 1, 1, 1), num_classes=CLASSES, channels=(8, 8, 16, 16), norm_layer=layer)
        stir(model)
    return model.eval()


def stir(model: nn.Module) -> None:
    """Move every weight away from its special starting value (zero biases, unit scales)."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.4 if name.startswith(("head", "fc.")) else 0.05))


def stream(
    count: int = 4, size: int = BATCH, last: int | None = None, pixels: int = PIXELS, seed: int = 1
) -> list[Tensor]:
    """Batches of random images in [0, 1]; the last one may be short."""
    generator = torch.Generator().manual_seed(seed)
    images = []
    for n in [size] * (count - 1) + [last or size]:
        colour = torch.rand(n, 3, 1, 1, generator=generator)  # makes images differ more than noise alone
        images.append(0.6 * colour + 0.4 * torch.rand(n, 3, pixels, pixels, generator=generator))
    return images
