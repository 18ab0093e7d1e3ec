"""EATA-COME: EATA with the entropy of an opinion in filter, weight and loss (see `_opinion.py`).

The filter for new samples and the Fisher information keep the softmax, as released.

Source and departures: `_opinion.py` for the loss, eata.py for the rest. The published threshold is 0.4 ln 1000;
here it is 0.4 ln(classes), while the entropy of an opinion is at most ln(classes + 1).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ._opinion import classes_or_default, most_belief, opinion_entropy
from ._variants import extends
from .eata import Eata


class EataCome(Eata):
    """Conservative entropy minimisation over samples that are reliable and new, anchored to the source model."""

    paper = "Zhang et al., ICLR 2025"
    bibtex = """@inproceedings{zhang2025come,
        title = {COME: Test-time Adaption by Conservatively Minimizing Entropy},
        author = {Zhang, Qingyang and Bian, Yatao and Kong, Xinke and Zhao, Peilin and Zhang, Changqing},
        booktitle = {International Conference on Learning Representations},
        year = {2025},
    }"""
    name = "eata-come"

    @extends(Eata.__init__)
    def __init__(self, model: nn.Module, *, opinion_classes: int | None = None, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.opinion_classes = classes_or_default(opinion_classes, self.num_classes)

    def entropies(self, logits: Tensor) -> Tensor:
        return opinion_entropy(logits, self.opinion_classes)

    def known_scores(self, logits: Tensor) -> Tensor:
        return most_belief(logits, self.opinion_classes)
