"""TENT-COME: TENT with the entropy of an opinion in place of the entropy of the prediction (see `_opinion.py`).

Source and departures: `_opinion.py` for the loss, tent.py for the rest.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ._opinion import classes_or_default, most_belief, opinion_entropy
from ._variants import extends
from .tent import Tent


class TentCome(Tent):
    """Conservative entropy minimisation over the whole batch."""

    paper = "Zhang et al., ICLR 2025"
    bibtex = """@inproceedings{zhang2025come,
        title = {COME: Test-time Adaption by Conservatively Minimizing Entropy},
        author = {Zhang, Qingyang and Bian, Yatao and Kong, Xinke and Zhao, Peilin and Zhang, Changqing},
        booktitle = {International Conference on Learning Representations},
        year = {2025},
    }"""

    @extends(Tent.__init__)
    def __init__(self, model: nn.Module, *, opinion_classes: int | None = None, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.opinion_classes = classes_or_default(opinion_classes, self.num_classes)

    def entropies(self, logits: Tensor) -> Tensor:
        return opinion_entropy(logits, self.opinion_classes)

    def known_scores(self, logits: Tensor) -> Tensor:
        return most_belief(logits, self.opinion_classes)
