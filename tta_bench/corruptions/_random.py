"""Where the chance in a corruption comes from: a private generator named by what it is for."""

from __future__ import annotations

import numpy as np

from tta_bench.data.seeding import seed_of


def generator(name: str, severity: int, image_id: str) -> np.random.Generator:
    """A fresh generator that depends on these three words and on nothing else in the process."""
    return np.random.Generator(np.random.PCG64(seed_of(name, severity, image_id)))
