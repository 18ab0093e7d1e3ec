"""Small models and streams for the tests of methods: those of `tta_bench.testing`."""

from __future__ import annotations

from tta_bench.testing import stir, stream
from tta_bench.testing import tiny_vit as small_vit

__all__ = ["small_vit", "stir", "stream"]
