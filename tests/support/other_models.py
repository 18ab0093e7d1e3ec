"""Models and streams that no trace was recorded on, and the settings of the traces fitted to them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from timm.layers.norm import GroupNorm
from timm.models import resnet
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tests.support.released import by_the_batch, entropy
from tests.support.small import stir, stream
from tests.support.traces import SETTINGS, Trace

BLOCKS: dict[str, Any] = {"basic": resnet.BasicBlock, "bottleneck": resnet.Bottleneck}
LAYERS: dict[str, Any] = {"batch": nn.BatchNorm2d, "group": partial(GroupNorm, num_groups=4)}


@dataclass(frozen=True)
class Scene:
    """A model and a stream for it, whose last batch is short."""

    classes: int
    pixels: int
    batch_size: int
    last: int
    patch_size: int = 0  # of a ViT
    embed_dim: int = 0
    num_heads: int = 0
    depth: int = 12
    pool: Any = "token"
    block: str = ""  # of a ResNet
    norm: str = "batch"

    def model(self) -> Any:
        """Stirred norms and a sharp head, so that some samples are sure and others are not."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            model: Any = self._resnet() if self.block else self._vit()
            stir(model)
            model.get_classifier().weight.data.normal_(0, 0.5)
        return model.eval()

    def _vit(self) -> Any:
        return VisionTransformer(
            img_size=self.pixels,
            patch_size=self.patch_size,
            depth=self.depth,
            embed_dim=self.embed_dim,
            num_heads=self.num_heads,
            mlp_ratio=3,
            global_pool=self.pool,
            num_classes=self.classes,
        )

    def _resnet(self) -> Any:
        channels: Any = (8, 12, 16, 24)
        model: Any = resnet.ResNet(
            BLOCKS[self.block],
            (1, 2, 1, 1),
            channels=channels,
            stem_width=6,
            num_classes=self.classes,
            norm_layer=LAYERS[self.norm],
            avg_down=self.block == "bottleneck",
        )
        for module in model.modules():  # statistics as after training on other images
            if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
        return model

    def batches(self, count: int = 4) -> list[Tensor]:
        return stream(count=count, size=self.batch_size, last=self.last, pixels=self.pixels, seed=5)

    def source(self) -> tuple[list[Tensor], list[Tensor]]:
        """Source batches and labels for them; the last class has no image."""
        images = stream(count=3, size=self.batch_size, last=self.last, pixels=self.pixels, seed=9)
        draw = torch.Generator().manual_seed(9)
        return images, [torch.randint(self.classes - 1, (len(one),), generator=draw) for one in images]


VITS = {
    "few classes": Scene(4, 15, 8, 5, patch_size=5, embed_dim=32, num_heads=2),
    "many classes, wide": Scene(37, 21, 16, 7, patch_size=7, embed_dim=40, num_heads=5),
}
BATCHNORM = {
    "few classes, batch norm": Scene(4, 33, 8, 5, block="basic"),
    "many classes, batch norm": Scene(37, 45, 16, 7, block="bottleneck"),
}
GROUPNORM = {"few classes, group norm": Scene(4, 37, 16, 3, block="basic", norm="group")}
AVERAGE = {"average pooling": Scene(7, 20, 8, 3, patch_size=5, embed_dim=32, num_heads=2, pool="avg")}
OTHER_DEPTHS = {
    "few blocks": Scene(6, 18, 12, 1, patch_size=6, embed_dim=24, num_heads=3, depth=3),
    "many blocks": Scene(9, 18, 12, 7, patch_size=6, embed_dim=24, num_heads=3, depth=14, pool="avg"),
}
WIDE_MAPS = {"wide maps, batch norm": Scene(23, 96, 12, 5, block="basic")}  # statistics over many pixels
LARGE = {"large images": Scene(7, 203, 8, 5, patch_size=29, embed_dim=32, num_heads=2)}  # graphs per image
SCENES = {**VITS, **BATCHNORM, **GROUPNORM, **AVERAGE, **OTHER_DEPTHS, **WIDE_MAPS, **LARGE}


def median(values: list[Tensor]) -> float:
    """Between two values, so that rounding moves nothing across."""
    found = torch.cat(values).sort().values
    middle = len(found) // 2
    return float(found[middle - 1 : middle + 1].mean())


def fitted(case: str, scene: Scene) -> dict[str, Any]:
    """The settings of a case, with thresholds that split this stream in two."""
    meta = Trace(case).meta
    found = {key: meta[key] for key in SETTINGS[meta["method"]] if key in meta}
    model = by_the_batch(copy.deepcopy(scene.model()))
    with torch.no_grad():
        logits = [model(batch) for batch in scene.batches()]
    if "entropy_threshold" in found and case != "sar-none-reliable":
        found["entropy_threshold"] = median([entropy(one) for one in logits])
    if found.get("plpd_threshold", 1) < 0.8:
        found["plpd_threshold"] = 0.01
    if found.get("anchor_threshold"):
        found["anchor_threshold"] = median([one.softmax(1).amax(1).mean()[None] for one in logits])
    if "queue_size" in found:
        found["lr"] /= 4  # at the recorded rate this model multiplies rounding errors tenfold with every batch
        found["queue_size"] = max(found["queue_size"], scene.batch_size)
    return found
