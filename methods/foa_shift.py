"""FOA-shift: move the features of a batch by what separates the stream's features from the source's.

The part of FOA (foa.py) that needs no prompts. From source images comes the mean of the features that
enter the classifier. Per batch: a forward, logits of the features plus (source mean - moving average of
the stream's batch means), then the average takes a tenth of this batch. The first batch is answered as by
the source model.

Source: Niu et al., "Test-Time Model Adaptation with Only Forward Passes", ICML 2024 (mr-eggplant/FOA,
foa_shift.py). As released, but for the width of ViT-B, which is written into the code there: any model
with a linear classifier will do. The published source data are the 50,000 clean validation images of
ImageNet, the originals of ImageNet-C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._head import Head, frozen
from ._moments import Moments
from ._prepared import fitting
from ._shift import ActivationShift


class FoaShift(Method):
    """Features shifted back towards the source mean; one forward, nothing learned but a mean."""

    paper = "Niu et al., ICML 2024"
    bibtex = """@inproceedings{niu2024foa,
        title = {Test-Time Model Adaptation with Only Forward Passes},
        author = {Niu, Shuaicheng and Miao, Chunyan and Chen, Guohao and Wu, Pengcheng and Zhao, Peilin},
        booktitle = {International Conference on Machine Learning},
        year = {2024},
    }"""
    adapts = "a shift of the classifier's input"
    passes = "1 forward"
    passes_per_image = (1, 0)
    kind = "statistics"
    published_batch_size = 64
    needs = ("source images",)
    needs_source = True

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self._head = Head(frozen(model), method="foa-shift", num_classes=num_classes)
        self._shift = ActivationShift(self._head.linear.weight)
        self._source: dict[str, Tensor] = {}

    def adapted_parameters(self) -> dict[str, Tensor]:
        return {"feature_mean": self._shift.mean}

    def load_adapted_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_adapted_state(state)
        self._shift.notice()

    @torch.no_grad()
    def prepare(self, source_batches: Iterable[Tensor], labels: Iterable[Tensor] | None = None) -> None:
        """The mean of the source features. From source, not from the stream: `reset` keeps it."""
        moments = Moments(1, self._head.linear.in_features)
        for batch in source_batches:
            moments.add(self._head.look(batch)[1])
        if not moments.count:
            raise UserError("foa-shift: prepare() got no source batches to take the mean feature from")
        self.load_prepared_state({"mean": moments.central()[0].float()})

    def prepared_state(self) -> dict[str, Tensor]:
        return dict(self._source)

    def load_prepared_state(self, state: Mapping[str, Tensor]) -> None:
        shapes = {"mean": (self._head.linear.in_features,)}
        self._source = fitting(state, shapes, method="foa-shift", like=self._head.linear.weight)

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        logits, features = self._shifted(batch)
        self._shift.update(features.float().mean(0))
        return logits

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._shifted(batch)[0]}

    def _shifted(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the shifted features, and the features as they were."""
        if not self._source:
            raise UserError("foa-shift: adapt() came before prepare(source_batches), which learns the source mean")
        _, features = self._head.look(batch)
        return self._head.classify(self._shift.towards(self._source["mean"], features)), features
