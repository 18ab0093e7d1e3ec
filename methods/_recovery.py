"""The recovery scheme of SAR, which DPAL took over: back to the source weights when predictions collapse."""

from __future__ import annotations

from typing import Literal

Recovery = Literal["released", "fixed"]
"""What a recovery leaves alone besides restoring the weights.

`released`: the moving average stays as it was, and so does SAM's momentum; several recoveries may follow each
other until the average has crept up. An accident of the authors' code, yet the code that was published with
their numbers, and so the default: a benchmark's first duty is to compute what the authors' code computes.
`fixed`: the average and all momentum are reset too.
"""


class CollapseWatch:
    """A moving average of the second pass's loss; near zero means that everything is put into one class."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.average: float | None = None

    def sees_collapse(self, loss: float | None) -> bool:
        """Take in a batch's loss (None: no reliable sample) and say whether to recover."""
        if loss is not None:
            self.average = loss if self.average is None else 0.9 * self.average + 0.1 * loss
        return self.average is not None and self.average < self.threshold
