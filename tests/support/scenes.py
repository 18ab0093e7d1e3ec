"""Images for tests of corruptions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def natural(height: int, width: int) -> Bytes:
    """Coloured noise whose amplitude falls as 1/f, as it does in photographs."""
    white = np.random.default_rng(0).standard_normal((height, width, 3))
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    frequency[0, 0] = 1
    waves = np.fft.rfft2(white, axes=(0, 1)) / frequency[..., None]
    field = np.fft.irfft2(waves, s=(height, width), axes=(0, 1))
    levels: Bytes = np.clip(115 + 45 * (field - field.mean()) / field.std(), 0, 255).astype(np.uint8)
    return levels
