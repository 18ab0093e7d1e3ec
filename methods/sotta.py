"""SoTTA: learn only from confident images, kept in a memory that balances the classes, and towards flat minima.

A stream may bring images of no known class, and one class after the other. Images are counted in windows of
`update_frequency`, whatever the batches are:
1. each image is predicted with the weights from the start of its window: the logits. If its confidence reaches
   `confidence_threshold` it joins the memory; in a full one it replaces a random image of the largest class;
2. at the end of a window: SAM on the mean entropy of all images in the memory, new or old. That is a gradient, a
   second one `rho` up the slope, and an Adam step by it from where the weights were.
Norm layers of all but the late blocks adapt, as in SAR. BatchNorm layers normalise by the memory in step 2, and by
running statistics, which follow both passes of step 2 by `bn_momentum`, in step 1.

Source: Gong et al., "SoTTA: Robust Test-Time Adaptation on Noisy Data Streams", NeurIPS 2023 (taeckyung/SoTTA). The
released thresholds are 0.99 for 10 classes, 0.66 for 100 and 0.33 for 1000, and so is the default for other numbers,
0.33 (4 - log10 classes). As released, every window's end steps, also if no image was new, and images in the last,
incomplete window are not learned from. Departs from the code: its driver leaves those images out of the score as well;
it predicts every image twice with the same weights; it freezes GroupNorm layers, which adapt here; a memory of one
image stops it where a BatchNorm layer sees one pixel, which here keeps its running statistics. Only ResNet-18s were
published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tta_bench.method import Method

from ._draws import Draws
from ._lean import Lean
from ._memory import Memory
from ._norms import frozen_modules, norm_parameters
from ._optim import Adam, Tensors, gradients, uphill
from ._ranges import at_least_one, not_negative, shares
from ._running import OwnStatistics

UNSURE = -1  # in place of a class


class Sotta(Method):
    """Sharpness-aware entropy minimisation over a class-balanced memory of confident images."""

    paper = "Gong et al., NeurIPS 2023"
    bibtex = """@inproceedings{gong2023sotta,
        title = {SoTTA: Robust Test-Time Adaptation on Noisy Data Streams},
        author = {Gong, Taesik and Kim, Yewon and Lee, Taeckyung and Chottananurak, Sorn and Lee, Sung-Ju},
        booktitle = {Advances in Neural Information Processing Systems},
        year = {2023},
    }"""
    adapts = "norm layers but those of late blocks; BatchNorm statistics"
    passes = "1 forward; 2 forwards and backwards of the memory at the end of a window"
    passes_per_image = (2.5, 1.5)
    kind = "norms"
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 1e-3,
        rho: float = 0.05,
        memory_size: int = 64,
        update_frequency: int = 64,
        confidence_threshold: float | None = None,
        bn_momentum: float = 0.2,
        frozen_blocks: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if confidence_threshold is None:
            confidence_threshold = min(0.99, max(0.0, 0.33 * (4 - math.log10(num_classes))))
        at_least_one(memory_size=memory_size, update_frequency=update_frequency)
        not_negative(lr=lr, rho=rho)
        shares(confidence_threshold=confidence_threshold, bn_momentum=bn_momentum)
        self.lr, self.rho, self.seed = lr, rho, seed
        self.memory_size, self.update_frequency = memory_size, update_frequency
        self.confidence_threshold, self.bn_momentum = confidence_threshold, bn_momentum
        self._adapted = norm_parameters(model, frozen_modules(model, frozen_blocks))
        model.eval().requires_grad_(False)
        for parameter in self._adapted.values():
            parameter.requires_grad_(True)
        self._statistics = OwnStatistics(model)
        self._forward = Lean(model)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._adam = Adam(list(self._adapted.values()), lr=self.lr)
        self._statistics.forget()
        self._memory: Memory[Tensor] = Memory(self.memory_size, self.num_classes)
        self._draws = Draws(self.seed)
        self._seen = 0

    def pick(self, count: int) -> int:
        """A random number below `count`: which class, or which image of a class, makes room."""
        return int(self._draws.whole(count))

    def adapt(self, batch: Tensor) -> Tensor:
        logits = []
        while len(batch):
            left = self.update_frequency - self._seen % self.update_frequency
            part, batch = batch[:left], batch[left:]
            logits.append(self.predict(part))
            self._remember(part, logits[-1])
            self._seen += len(part)
            if len(part) == left and len(self._memory):
                self._learn(torch.stack(self._memory.items()))
        return torch.cat(logits)

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        with self._statistics.lent():
            return {"logits": self._forward(batch)}

    def _remember(self, images: Tensor, logits: Tensor) -> None:
        """Keep the confident images: each of them enters, and a full memory makes room."""
        confidences, labels = logits.float().softmax(1).max(1)
        sure_of = torch.where(confidences >= self.confidence_threshold, labels, UNSURE).tolist()
        for image, label in zip(images, sure_of, strict=True):
            if label == UNSURE:
                continue
            if self._memory.is_full:
                self._memory.make_room(label, self.pick)
            self._memory.classes[label].append(image.clone())

    @torch.enable_grad()
    def _learn(self, images: Tensor) -> None:
        ascent = self._slope(images)
        with uphill(self._adam.tensors, ascent, self.rho):
            descent = self._slope(images)
        self._adam.step(descent)

    def _slope(self, images: Tensor) -> Tensors:
        """The gradient of the mean entropy, in training mode."""
        with self._statistics.following(self.bn_momentum):
            p = self._forward(images).float().softmax(1)
        return gradients(-(p * (p + 1e-6).log()).sum(1).mean(), self._adam.tensors)
