"""DPAL as its authors released it: the class of dpal.py with the two choices of the released code.

Logits of the second forward, at weights perturbed by SAM, and lambda over the nominal batch size. See the
table in dpal.py. The score point is shown in every table: other methods are scored before the update.
"""

from __future__ import annotations

from ._variants import with_defaults
from .dpal import Dpal


class DpalOfficial(Dpal):
    """DPAL with the released code's score point and lambda."""

    passes = "1 forward and backward; 1 forward, and 1 backward of reliable samples"
    score_point = "perturbed"

    __init__ = with_defaults(Dpal.__init__, similarity_batch="nominal", score="second")
