"""How often a value came before, for each place of a sequence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def earlier(values: NDArray[np.integer]) -> NDArray[np.int64]:
    """For each value, how many equal ones come before it."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=-1))
    lengths = np.diff(np.append(starts, len(order)))
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    return found
