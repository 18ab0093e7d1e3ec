"""NOTE: single images correct their own normalisation, and learning uses a balanced memory.

Where the images of a class follow one another, the statistics of a batch are those of a class. So no prediction depends
on other images: layers are normalised by instance-aware batch normalisation (IABN, `_iabn.py`). A memory of
`memory_size` images keeps predicted classes and times in balance (`_reservoir.py`). After every `update_frequency`
images, also in the middle of a batch: one pass over the memory by its own statistics, which the running ones follow by
`bn_momentum`, and one Adam step on weights and biases of all BatchNorm layers with the mean entropy as loss. Each image
is predicted by the weights of its window, before the update at its end.

Source: Gong et al., "NOTE: Robust Continual Test-time Adaptation Against Temporal Correlation", NeurIPS 2022
(TaesikGong/NOTE). The authors train the source model with IABN in place of BatchNorm; a model that was not takes it, but
is no longer quite itself: a remark in tables says so. As released, the loss is the entropy divided by the number of
classes, and an incomplete last window is predicted, not learned from. Departs from the code, with the same result: the
images of a window are predicted together, once. A layer that sees one value per channel (memory of one image, one
pixel) uses its running variance, where the code gives NaN. BatchNorm only, as released: a model without it is refused.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tta_bench.method import Method

from ._batchnorm import affine_parameters, batch_norms
from ._draws import Draws
from ._head import frozen
from ._iabn import InstanceAware
from ._optim import Adam, gradients
from ._ranges import not_negative, shares
from ._reservoir import Reservoir


class Note(Method):
    """Instance-aware BatchNorm, and entropy minimisation over a class-balanced memory."""

    paper = "Gong et al., NeurIPS 2022"
    adapts = "BatchNorm layers and their statistics"
    passes = "1 forward; 1 forward and backward of the memory per window"
    kind = "norms"
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 1e-4,
        memory_size: int = 64,
        update_frequency: int = 64,
        bn_momentum: float = 0.01,
        iabn_k: float = 4.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        for name, value in (("memory_size", memory_size), ("update_frequency", update_frequency)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected 1 or more images")
        shares(bn_momentum=bn_momentum)
        not_negative(iabn_k=iabn_k)
        self.lr, self.memory_size, self.update_frequency = lr, memory_size, update_frequency
        self.bn_momentum, self.iabn_k, self.seed = bn_momentum, iabn_k, seed
        self._norms = batch_norms(frozen(model), "note")
        self._adapted = affine_parameters(model, "note")
        for parameter in self._adapted.values():
            parameter.requires_grad_(True)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._adam = Adam(list(self._adapted.values()), lr=self.lr)
        self._draws = Draws(self.seed)
        self._statistics = InstanceAware(self._norms, k=self.iabn_k, momentum=self.bn_momentum)
        self._memory = Reservoir(self.memory_size, pick=lambda count: self.pick(count), draw=lambda: self.draw())
        self._due = self.update_frequency

    def pick(self, count: int) -> int:
        """Which of `count` classes or images gives way."""
        return int(self._draws.whole(count, 1))

    def draw(self) -> float:
        """Between 0 and 1: whether an image of a frequent class is kept."""
        return self._draws.uniform(0, 1)

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        with self._statistics.in_place():
            return {"logits": self.model(batch)}

    def adapt(self, batch: Tensor) -> Tensor:
        logits = []
        while len(batch):
            window, batch = batch[: self._due], batch[self._due :]
            logits.append(self.predict(window))
            for image, label in zip(window, logits[-1].argmax(1).tolist(), strict=True):
                self._memory.add(image, label)
            self._due -= len(window)
            if not self._due:
                self._learn()
                self._due = self.update_frequency
        return torch.cat(logits)

    @torch.enable_grad()
    def _learn(self) -> None:
        with self._statistics.in_place(of_the_batch=True):
            p = self.model(self._memory.batch()).float().softmax(1)
        self._adam.step(gradients(-(p * (p + 1e-6).log()).mean(), self._adam.tensors))
