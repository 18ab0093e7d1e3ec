"""BN-alpha: mix the BatchNorm statistics of the source data with those of the batch.

Statistics of a small batch are noisy and those of the source data are biased, so each layer normalises by
(1 - alpha) * source + alpha * batch. With a small `alpha` that works for single images too. Nothing is
kept between batches.

Source: Schneider et al., "Improving robustness against common corruptions by covariate shift adaptation",
NeurIPS 2020, as in mariodoebler/test-time-adaptation (norm_alpha). As released, the batch's variance is
the unbiased one, so that `alpha=1` is not quite bn-test. Departs from it: where a layer sees one value
per channel (one image, one pixel), which has no variance, the released code stops; here the source
variance stays and only the mean is mixed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tta_bench.method import Method

from ._batchnorm import SourceStatistics, batch_norms
from ._head import frozen


class BnAlpha(Method):
    """One forward with BatchNorm statistics between those of the source data (`alpha` 0) and of the batch (1)."""

    paper = "Schneider et al., NeurIPS 2020"
    bibtex = """@inproceedings{schneider2020improving,
        title = {Improving robustness against common corruptions by covariate shift adaptation},
        author = {Schneider, Steffen and Rusak, Evgenia and Eck, Luisa and Bringmann, Oliver and Brendel, Wieland and
            Bethge, Matthias},
        booktitle = {Advances in Neural Information Processing Systems},
        year = {2020},
    }"""
    adapts = "BatchNorm statistics: source and batch mixed"
    passes = "1 forward"
    passes_per_image = (1, 0)
    kind = "statistics"

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64, alpha: float = 0.1) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is {alpha}, expected 0 (source statistics) to 1 (those of the batch)")
        self.alpha = alpha
        self._norms = batch_norms(frozen(model), "bn-alpha")
        self._source = SourceStatistics(model)

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        with self._source.restored():  # the hooks put mixed statistics in their place
            hooks = [norm.register_forward_pre_hook(self._mix) for norm in self._norms]
            try:
                logits: Tensor = self.model(batch)
            finally:
                for hook in hooks:
                    hook.remove()
        return logits

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self.adapt(batch)}

    def _mix(self, norm: Any, args: tuple[Any, ...]) -> None:
        values = args[0].float()
        norm.running_mean = torch.lerp(norm.running_mean, values.mean((0, 2, 3)), self.alpha)
        if values.numel() > values.shape[1]:
            norm.running_var = torch.lerp(norm.running_var, values.var((0, 2, 3)), self.alpha)
