"""The embedded digits under one corruption per task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tta_bench.checked.annotations import Severity
from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.data.images import ImageSet
from tta_bench.datasets import digits
from tta_bench.datasets.base import SAMPLE, Dataset
from tta_bench.datasets.opening import OnOpened


class DrawnC(Dataset):
    """Images drawn on demand, under one corruption per task; nothing is on disk."""

    bibtex = """@misc{alpaydin1998digits,
        title = {Optical Recognition of Handwritten Digits},
        author = {Alpaydin, Ethem and Kaynak, Cenk},
        howpublished = {UCI Machine Learning Repository},
        year = {1998},
    }
    @inproceedings{hendrycks2019corruptions,
        title = {Benchmarking Neural Network Robustness to Common Corruptions and Perturbations},
        author = {Hendrycks, Dan and Dietterich, Thomas},
        booktitle = {International Conference on Learning Representations},
        year = {2019},
    }"""

    def tasks(self) -> Sequence[str]:
        return (*CORRUPTIONS, *HELD_OUT)

    def places(self, task: str) -> Sequence[Path]:
        return ()

    def source_places(self, task: str) -> Sequence[Path]:
        return ()


class DigitsC(DrawnC):
    """The embedded digits under one corruption per task."""

    code = "tta_bench.datasets.digits"
    num_classes = 10

    def __init__(self, root: Path | None, *, severity: Severity) -> None:
        self.severity = severity

    def at_severity(self, severity: int) -> DigitsC:
        return DigitsC(None, severity=severity)

    def open(self, task: str) -> ImageSet:
        return digits.corrupted(task, self.severity)

    def originals(self, task: str) -> ImageSet:
        return digits.stream_images()

    def inspect(self, task: str, *, sample: int | None = SAMPLE, on_opened: OnOpened | None = None) -> str:
        return f"{digits.STREAM_IMAGES} images, severity {self.severity}"

    def source_images(self, task: str | None = None) -> ImageSet:
        return digits.clean("train")
