"""Where the chance in a corruption comes from: a private generator named by what it is for."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(name: str, severity: int, image_id: str) -> np.random.Generator:
    """A fresh generator that depends on these three words and on nothing else in the process."""
    # The id comes last: it is the only part that may itself contain a bar.
    digest = hashlib.sha256(f"{name}|{severity}|{image_id}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
