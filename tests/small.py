"""Small models and streams for the tests of methods."""

from __future__ import annotations

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn


def small_vit(seed: int = 3, num_classes: int = 10, **changes: object) -> VisionTransformer:
    """A 12-block ViT for 16 px images, random but not untouched: sure enough of some samples to learn from."""
    config = {"img_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 12, "num_heads": 3, "mlp_ratio": 2.0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = VisionTransformer(**{**config, "num_classes": num_classes, **changes})
        stir(model)
    return model.eval()


def stir(model: nn.Module) -> None:
    """Move every weight away from its special starting value (zero biases, unit scales)."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.4 if name.startswith(("head", "fc.")) else 0.05))


def stream(count: int = 4, size: int = 8, last: int | None = None, pixels: int = 16, seed: int = 1) -> list[Tensor]:
    """Batches of random images in [0, 1]; the last one may be short."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [size] * (count - 1) + [last or size]
    images = []
    for n in sizes:
        colour = torch.rand(n, 3, 1, 1, generator=generator)  # images differ more than noise alone would let them
        images.append(0.6 * colour + 0.4 * torch.rand(n, 3, pixels, pixels, generator=generator))
    return images
