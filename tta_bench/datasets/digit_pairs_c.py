"""Drawings of two digits under one corruption per task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from tta_bench.checked.annotations import Severity
from tta_bench.data.images import ImageSet
from tta_bench.datasets import digit_pairs
from tta_bench.datasets.base import SAMPLE
from tta_bench.datasets.digits_c import DrawnC
from tta_bench.datasets.opening import OnOpened

# Ids have six digits, and a task of a million images takes about 2 GB of memory.
Length = Annotated[
    int,
    Meta(
        ge=1,
        le=1_000_000,
        title="a whole number from 1 to 1,000,000",
        description="How many drawings a task has.",
    ),
]


class DigitPairsC(DrawnC):
    """Drawings of two digits under one corruption per task; `images` is the length of a stream."""

    code = "tta_bench.datasets.digit_pairs"
    num_classes = digit_pairs.NUM_CLASSES

    def __init__(self, root: Path | None, *, severity: Severity, images: Length) -> None:
        self.severity = severity
        self.images = images

    def at_severity(self, severity: int) -> DigitPairsC:
        return DigitPairsC(None, severity=severity, images=self.images)

    def open(self, task: str) -> ImageSet:
        return digit_pairs.corrupted(task, self.severity, self.images)

    def originals(self, task: str) -> ImageSet:
        return digit_pairs.clean(digit_pairs.set_of(task), self.images)

    def inspect(self, task: str, *, sample: int | None = SAMPLE, on_opened: OnOpened | None = None) -> str:
        return f"{self.images:,} images, severity {self.severity}"

    def source_images(self, task: str | None = None) -> ImageSet:
        return digit_pairs.source_images()
