"""Drawings of two digits under one corruption a task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tta_bench.corruptions import CORRUPTIONS, HELD_OUT
from tta_bench.data.images import ImageSet
from tta_bench.datasets import digit_pairs
from tta_bench.datasets.base import SAMPLE, Dataset
from tta_bench.datasets.on_disk import severity_of
from tta_bench.datasets.opening import OnOpened
from tta_bench.errors import UserError

MOST_IMAGES = 1_000_000  # the six digits of an id; some two gigabytes of memory a task


class DigitPairsC(Dataset):
    """Drawings of two digits under one corruption a task; `images` says how many a stream has."""

    options = ("severity", "images")
    code = "tta_bench.datasets.digit_pairs"
    num_classes = digit_pairs.NUM_CLASSES

    def __init__(self, root: Path | None, *, severity: Any, images: Any) -> None:
        self.severity = severity_of(severity)
        self.images = _count(images)

    def at_severity(self, severity: int) -> DigitPairsC:
        return DigitPairsC(None, severity=severity, images=self.images)

    def tasks(self) -> Sequence[str]:
        return (*CORRUPTIONS, *HELD_OUT)

    def open(self, task: str) -> ImageSet:
        return digit_pairs.corrupted(task, self.severity, self.images)

    def originals(self, task: str) -> ImageSet:
        return digit_pairs.clean(digit_pairs.set_of(task), self.images)

    def inspect(self, task: str, *, sample: int | None = SAMPLE, on_opened: OnOpened | None = None) -> str:
        return f"{self.images:,} images, severity {self.severity}"

    def source_images(self, task: str | None = None) -> ImageSet:
        return digit_pairs.source_images()


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_IMAGES:
        raise UserError(f"data: images: expected a whole number from 1 to {MOST_IMAGES:,}, got {value!r}")
    return value
