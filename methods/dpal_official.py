"""DPAL as its authors released it: the class of dpal.py with the three choices of the released code.

Zero prediction networks (so the similarity loss has no effect), logits of the second forward, at weights
perturbed by SAM, and lambda over the nominal batch size. See the table in dpal.py. The score point is shown
in every table: other methods are scored before the update.
"""

from __future__ import annotations

from ._variants import with_defaults
from .dpal import Dpal


class DpalOfficial(Dpal):
    """DPAL with the released code's start, score point and lambda."""

    passes = "1 forward and backward; 1 forward, and 1 backward of reliable samples"
    score_point = "perturbed"

    __init__ = with_defaults(Dpal.__init__, similarity_batch="nominal", score="second")
