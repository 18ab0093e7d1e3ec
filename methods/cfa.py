"""CFA: pull the features of a batch to where the source features were, as a whole and class by class.

The classifier was trained on source features, so features that are distributed like them suit it. h is
the classifier's input, standardised and squashed: tanh(LayerNorm(h)). From source images come the mean
and the central moments of h, and its mean for each class. Per batch: a forward; the distances of the
first `moments` moments to those of the source, and of the mean of each predicted class to that class's
source mean, averaged over the classes predicted; one SGD step on all norm layers with the gradient
clipped at `max_grad_norm`. Moment j is divided by 2^j, the width of the range of h. The logits are those
of the forward, before the step.

Source: Kojima et al., "Robustifying Vision Transformer without Retraining from Scratch by Test-Time
Class-Conditional Feature Alignment", IJCAI 2022 (kojima-takeshi188/CFA). As released, the classes of the
source images are the true labels; where `prepare` gets none, the model's own predictions take their
place. The published source data are all of ImageNet's training images. Departs from the released code: a
class that no source image has is left out of the class term, where its mean is NaN and spoils the loss;
the norms are found by type, not by the names of a ViT's, or of a ResNet's outside its shortcuts. As
there, BatchNorm uses source statistics for the source images and those of the batch in the stream. On a
single image all moments but the mean are zero: it adapts, by less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._batchnorm import SourceStatistics
from ._head import Head, class_sums
from ._host import sent
from ._moments import ClassMeans, Moments, labelled
from ._norms import norm_parameters, set_up
from ._optim import Sgd, clipped, gradients
from ._passes import Passes
from ._prepared import fitting
from ._ranges import not_negative


class Cfa(Method):
    """Alignment of moments and class means of the features with those of source images."""

    paper = "Kojima et al., IJCAI 2022"
    bibtex = """@inproceedings{kojima2022cfa,
        title = {Robustifying Vision Transformer without Retraining from Scratch by Test-Time Class-Conditional Feature
            Alignment},
        author = {Kojima, Takeshi and Matsuo, Yutaka and Iwasawa, Yusuke},
        booktitle = {International Joint Conference on Artificial Intelligence},
        year = {2022},
    }"""
    adapts = "all norm layers"
    passes = "1 forward, 1 backward"
    passes_per_image = (1, 1)
    kind = "norms"
    published_batch_size = 64
    needs = ("source images", "source labels")
    needs_source = True
    uses_labels = True

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 1e-3,
        momentum: float = 0.9,
        moments: int = 3,
        overall_weight: float = 1.0,
        class_weight: float = 1.0,
        max_grad_norm: float = 1.0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if moments < 1:
            raise ValueError(f"moments is {moments}, expected 1 or more")
        if max_grad_norm <= 0:
            raise ValueError(f"max_grad_norm is {max_grad_norm}, expected more than 0")
        not_negative(overall_weight=overall_weight, class_weight=class_weight)
        self.lr, self.momentum = lr, momentum
        self.moments = moments
        self.overall_weight, self.class_weight = overall_weight, class_weight
        self.max_grad_norm = max_grad_norm
        self._head = Head(model, method="cfa", num_classes=num_classes)
        self._adapted = norm_parameters(model)
        self._source_norms = SourceStatistics(model)
        set_up(model, list(self._adapted.values()))
        self._passes = Passes(model, self._head)
        self._source: dict[str, Tensor] = {}
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._sgd = Sgd(list(self._adapted.values()), lr=self.lr, momentum=self.momentum)

    @torch.no_grad()
    def prepare(self, source_batches: Iterable[Tensor], labels: Iterable[Tensor] | None = None) -> None:
        """Moments and class means of the source features. From source, not from the stream: `reset` keeps them."""
        width = self._head.linear.in_features
        overall, by_class = Moments(self.moments, width), ClassMeans(self.num_classes, width)
        with self._source_norms.restored():
            for batch, truth in labelled(source_batches, labels, self.num_classes, method="cfa"):
                logits, features = self._head.look(batch)
                h = squashed(features)
                overall.add(h)
                by_class.add(h, logits.argmax(1) if truth is None else truth)
        if not overall.count:
            raise UserError("cfa: prepare() got no source batches to take feature statistics from")
        self.load_prepared_state(
            {
                "moments": overall.central().float(),
                "class_means": by_class.means().float(),
                "class_counts": by_class.counts,
            }
        )

    def prepared_state(self) -> dict[str, Tensor]:
        return dict(self._source)

    def load_prepared_state(self, state: Mapping[str, Tensor]) -> None:
        width = self._head.linear.in_features
        shapes = {
            "moments": (self.moments, width),
            "class_means": (self.num_classes, width),
            "class_counts": (self.num_classes,),
        }
        self._source = fitting(state, shapes, method="cfa", like=self._head.linear.weight)
        self._in_source = self._source["class_counts"].cpu() > 0

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        if not self._source:
            raise UserError("cfa: adapt() came before prepare(source_batches), which learns the source features")
        logits = self._passes.everyone(batch)
        h = squashed(self._head.take(len(batch)))
        loss = self.overall_weight * self._overall(h) + self.class_weight * self._by_class(h, logits.argmax(1))
        grads = gradients(loss, self._sgd.tensors)
        self._sgd.step(clipped(grads, self.max_grad_norm))
        return logits.detach()

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        logits = self._passes.everyone(batch)
        self._head.take(len(batch))
        return {"logits": logits}

    def _overall(self, h: Tensor) -> Tensor:
        """Distances of the batch's moments, those from the second on about the batch's own mean."""
        mean = h.mean(0)
        moments = torch.stack([mean, *((h - mean).pow(j).mean(0) for j in range(2, self.moments + 1))])
        ranges = 2.0 ** torch.arange(1, self.moments + 1, device=h.device)
        # `norm` has gradient zero where a distance is zero; a root of a sum of squares has none.
        distances: Tensor = (moments - self._source["moments"]).norm(dim=1)
        return (distances / ranges).sum()

    def _by_class(self, h: Tensor, predicted: Tensor) -> Tensor:
        """Mean distance of class means, over the classes that are predicted here and known from the source."""
        found, row, counts = predicted.cpu().unique(return_inverse=True, return_counts=True)
        known = self._in_source[found].nonzero().squeeze(1)
        present, row, counts, known = (sent(values, h) for values in (found, row, counts, known))
        means = class_sums(h, row, len(present)) / counts[:, None]
        distances: Tensor = (means - self._source["class_means"][present]).norm(dim=1)[known]
        return distances.sum() / 2 / max(len(distances), 1)


def squashed(features: Tensor) -> Tensor:
    """Each sample's features standardised, then brought into (-1, 1)."""
    features = features.float()
    return F.layer_norm(features, features.shape[1:]).tanh()
