"""Where a suite's images come from: one class per kind of data, named by `data: {kind: …}` in its YAML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tta_bench import digits
from tta_bench.corruptions import CORRUPTIONS, HELD_OUT
from tta_bench.errors import UserError, did_you_mean
from tta_bench.images import ImageSet


class Dataset(ABC):
    """Opens the tasks of one kind of data, and the clean source images that some methods need."""

    options: ClassVar[tuple[str, ...]] = ()
    code: ClassVar[str]  # the module whose source decides what the images look like
    num_classes: int

    def __init__(self, root: Path | None, **options: Any) -> None:
        """Take the options of a suite's `data` block, checked by name; wrong values are a UserError."""

    @abstractmethod
    def tasks(self) -> Sequence[str]:
        """Every task that can be opened."""

    @abstractmethod
    def open(self, task: str) -> ImageSet:
        """The images of a task; data that cannot be read is a UserError."""

    def at_severity(self, severity: int) -> Dataset:
        """The same data at another severity, for the gradual scenario."""
        raise UserError("--scenario gradual needs data with severities")

    @abstractmethod
    def inspect(self, task: str) -> str:
        """Look at a task without reading all of it; says what is there, or a UserError says what is wrong."""

    @abstractmethod
    def source_images(self) -> ImageSet:
        """Clean source images for `Method.prepare`; their labels are not used."""


class DigitsC(Dataset):
    """The embedded digits under one corruption a task."""

    options = ("severity",)
    code = "tta_bench.digits"
    num_classes = 10

    def __init__(self, root: Path | None, *, severity: Any) -> None:
        if severity not in (1, 2, 3, 4, 5):
            raise UserError(f"data: severity: expected 1 to 5, got {severity!r}")
        self.severity: int = severity

    def at_severity(self, severity: int) -> DigitsC:
        return DigitsC(None, severity=severity)

    def tasks(self) -> Sequence[str]:
        return (*CORRUPTIONS, *HELD_OUT)

    def open(self, task: str) -> ImageSet:
        return digits.corrupted(task, self.severity)

    def inspect(self, task: str) -> str:
        return f"{len(digits.clean('test').ids)} images, severity {self.severity}"

    def source_images(self) -> ImageSet:
        return digits.clean("train")


KINDS: dict[str, type[Dataset]] = {"digits-c": DigitsC}


def open_dataset(config: Mapping[str, Any], tasks: Sequence[str], root: Path | None) -> Dataset:
    """The dataset that a suite's `data` block describes, checked to know all its tasks."""
    options = dict(config)
    kind = options.pop("kind", None)
    if kind not in KINDS:
        raise UserError(f"data: unknown kind '{kind}'{did_you_mean(str(kind), KINDS)}")
    cls = KINDS[kind]
    for key in options:
        if key not in cls.options:
            raise UserError(f"data: kind '{kind}' has no option '{key}'{did_you_mean(key, cls.options)}")
    for key in cls.options:
        if key not in options:
            raise UserError(f"data: kind '{kind}' needs the option '{key}'")
    dataset = cls(root, **options)
    known = dataset.tasks()
    for task in tasks:
        if task not in known:
            raise UserError(f"unknown task '{task}'{did_you_mean(task, known)}")
    return dataset
