"""BN-test: normalise every batch by its own statistics instead of those of the source data.

The mean and the variance that a BatchNorm layer learned on source images are wrong for shifted ones;
those of the test batch itself are at hand. Nothing is learned, nothing is kept.

Source: Nado et al., "Evaluating Prediction-Time Batch Normalization for Robustness under Covariate
Shift", 2020, as in mariodoebler/test-time-adaptation (norm_test). The variance is the biased one. A batch
of one image is normalised over its own pixels; where a layer has one pixel left, the released code stops,
and here its output is the layer's bias.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tta_bench.method import Method

from ._batchnorm import batch_norms
from ._norms import set_up
from ._passes import Passes


class BnTest(Method):
    """One forward with the BatchNorm statistics of the batch."""

    paper = "Nado et al., 2020"
    bibtex = """@misc{nado2020prediction,
        title = {Evaluating Prediction-Time Batch Normalization for Robustness under Covariate Shift},
        author = {Nado, Zachary and Padhy, Shreyas and Sculley, D. and D'Amour, Alexander and Lakshminarayanan, Balaji
            and Snoek, Jasper},
        howpublished = {arXiv:2006.10963},
        year = {2020},
    }"""
    adapts = "BatchNorm statistics: those of the batch"
    passes = "1 forward"
    passes_per_image = (1, 0)
    kind = "statistics"

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        batch_norms(model, "bn-test")
        set_up(model, [])
        self._passes = Passes(model)

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        return self._passes.everyone(batch)

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._passes.everyone(batch)}
