"""DPAL as its authors released it: the class of dpal.py with the three choices of the released code.

Zero prediction networks (so the similarity loss has no effect), logits of the second forward, at weights
perturbed by SAM, and lambda over the nominal batch size. See the table in dpal.py. The score point is shown
in every table: other methods are scored before the update.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ._lifting import PredictorInit
from ._recovery import Recovery
from .dpal import Dpal, Score, SimilarityBatch


class DpalOfficial(Dpal):
    """DPAL with the released code's start, score point and lambda."""

    passes = "1 forward and backward; 1 forward, and 1 backward of reliable samples"
    score_point = "perturbed"

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 1e-2,
        momentum: float = 0.9,
        rho: float = 0.05,
        predictor_rho: float = 0.0,
        entropy_threshold: float | None = None,
        reset_threshold: float = 0.2,
        recovery: Recovery = "released",
        frozen_blocks: Sequence[int] | None = None,
        shift_tokens: int = 1,
        predictor_init: PredictorInit = "zeros",
        similarity: bool = True,
        similarity_batch: SimilarityBatch = "nominal",
        score: Score = "second",
        seed: int = 0,
    ) -> None:
        super().__init__(
            model,
            num_classes=num_classes,
            batch_size=batch_size,
            lr=lr,
            momentum=momentum,
            rho=rho,
            predictor_rho=predictor_rho,
            entropy_threshold=entropy_threshold,
            reset_threshold=reset_threshold,
            recovery=recovery,
            frozen_blocks=frozen_blocks,
            shift_tokens=shift_tokens,
            predictor_init=predictor_init,
            similarity=similarity,
            similarity_batch=similarity_batch,
            score=score,
            seed=seed,
        )
