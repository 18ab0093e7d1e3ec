"""NOTE: single images correct their own normalisation, and learning uses a balanced memory.

Where the images of a class follow one another, the statistics of a batch are those of a class. So no prediction depends
on other images: layers are normalised by instance-aware batch normalisation (IABN, `_iabn.py`). A memory of
`memory_size` images keeps predicted classes and times in balance (`_meet`). After every `update_frequency`
images, also in the middle of a batch: one pass over the memory by its own statistics, which the running ones follow by
`bn_momentum`, and one Adam step on weights and biases of all BatchNorm layers with the mean entropy as loss. Each image
is predicted by the weights of its window, before the update at its end.

Source: Gong et al., "NOTE: Robust Continual Test-time Adaptation Against Temporal Correlation", NeurIPS 2022
(TaesikGong/NOTE). The authors train the source model with IABN in place of BatchNorm. A model trained without it runs,
but its predictions change: a remark in tables says so. As released, the loss is the entropy divided by the number of
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
from ._memory import Memory
from ._optim import Adam, gradients
from ._ranges import at_least_one, not_negative, shares


class Note(Method):
    """Instance-aware BatchNorm, and entropy minimisation over a class-balanced memory."""

    paper = "Gong et al., NeurIPS 2022"
    bibtex = """@inproceedings{gong2022note,
        title = {NOTE: Robust Continual Test-time Adaptation Against Temporal Correlation},
        author = {Gong, Taesik and Jeong, Jongheon and Kim, Taewon and Kim, Yewon and Shin, Jinwoo and Lee, Sung-Ju},
        booktitle = {Advances in Neural Information Processing Systems},
        year = {2022},
    }"""
    adapts = "BatchNorm layers and their statistics"
    passes = "1 forward; 1 forward and backward of the memory per window"
    passes_per_image = (2, 1)
    kind = "norms"
    published_batch_size = 64
    caveat = "the source model was not trained with the normalisation that it expects (IABN)"

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
        at_least_one(memory_size=memory_size, update_frequency=update_frequency)
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
        self._memory: Memory[Tensor] = Memory(self.memory_size, self.num_classes)
        self._met = [0] * self.num_classes
        self._due = self.update_frequency

    def pick(self, count: int) -> int:
        """A random number below `count`: which class, or which image of a class, makes room."""
        return int(self._draws.whole(count))

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
                self._meet(image, label)
            self._due -= len(window)
            if not self._due:
                self._learn()
                self._due = self.update_frequency
        return torch.cat(logits)

    def _meet(self, image: Tensor, label: int) -> None:
        """Keep an image, or not.

        A full memory keeps an image of its largest classes with probability stored / met, so that each image of the
        class met so far is as likely to be there as any other.
        """
        self._met[label] += 1
        stored = self._memory.classes[label]
        if self._memory.is_full:
            if label in self._memory.largest() and self.draw() > len(stored) / self._met[label]:
                return
            self._memory.make_room(label, self.pick)
        stored.append(image.clone())

    @torch.enable_grad()
    def _learn(self) -> None:
        with self._statistics.in_place(of_the_batch=True):
            p = self.model(torch.stack(self._memory.items())).float().softmax(1)
        self._adam.step(gradients(-(p * (p + 1e-6).log()).mean(), self._adam.tensors))
