"""What every kind of data promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from tta_bench.data.images import ImageSet
from tta_bench.data.seeding import permutation
from tta_bench.datasets.opening import OnOpened, refuse_bad
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError

SAMPLE = 3  # images of a task that `inspect` decodes


class Dataset(ABC):
    """Opens the tasks of one kind of data, and the clean source images that some methods need."""

    layout: str = ""  # what must be below --data-root; empty if nothing
    source_by_task: ClassVar[bool] = False  # whether tasks differ in their source images
    bibtex: ClassVar[str] = ""  # entries of its papers, for `tta-bench cite`; those of its base classes are added
    code: ClassVar[str]  # the module whose code determines the images; by default the class's own

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" not in vars(cls):
            cls.code = cls.__module__

    def __init__(self, root: Path | None) -> None:
        """Take the data root. The keyword arguments of a subclass are the options of a suite's `data` block.

        `open_dataset` checks them by their annotations. Opens no file yet, so that a suite can be described on a
        machine without its data.
        """

    @property
    @abstractmethod
    def num_classes(self) -> int:
        """Number of scored logits: the length of the class mask, if there is one."""

    @abstractmethod
    def tasks(self) -> Sequence[str]:
        """Every task that can be opened."""

    @abstractmethod
    def open(self, task: str) -> ImageSet:
        """The images of a task; unreadable or incomplete data raises UserError."""

    def inspect(self, task: str, *, sample: int | None = SAMPLE, on_opened: OnOpened | None = None) -> str:
        """Check a task and decode a sample of it; returns a summary, or raises UserError.

        Without a sample it decodes all images, reports progress to `on_opened`, and the error names all bad images.
        """
        images = self.open(task)
        if sample is None:
            refuse_bad(images, on_opened)
        opened = permutation(len(images.ids), "inspect", task)[:sample]
        for position in opened if sample is not None else ():
            images.read(np.array([position]))
        return f"{len(np.unique(images.labels))} classes, {len(images.ids):,} images, {len(opened):,} opened"

    def source_images(self, task: str | None = None) -> ImageSet:
        """Clean source images for `Method.prepare`, labelled like a stream.

        The task matters only if tasks differ in their source. Missing images raise UserError.
        """
        raise UserError("this kind of data has no clean source images, which the method needs before it adapts")

    def places(self, task: str) -> Sequence[Path] | None:
        """Files and folders that change with the task's images; empty for images that are not in files.

        Opens nothing. None if unknown: then the images themselves are read.
        """
        return None

    def source_places(self, task: str) -> Sequence[Path] | None:
        """The same for `source_images`."""
        return None

    def seems_there(self, task: str) -> bool:
        """Whether a task seems to be on disk, judged by names alone: `open` may still refuse it.

        May raise UserError if there is no data of this kind at all.
        """
        return True

    def downloads(self, task: str | None = None) -> Sequence[str]:
        """What to pass to `tta-bench download` for a task, or for all tasks; empty if it cannot be downloaded."""
        return ()

    def originals(self, task: str) -> ImageSet | None:
        """The images of a task before corruption, in the same order; None if there are none.

        If the user must provide them and has not, a UserError says what to put where.
        """
        return None

    def clean_images(self, task: str) -> ImageSet | None:
        """Clean test images of the size at which corruptions are computed; None if there are none."""
        return self.originals(task)

    def at_severity(self, severity: int) -> Dataset:
        """The same data at another severity, for the gradual scenario."""
        raise UserError("--scenario gradual requires data with severities")

    def sized(self, size: int, interpolation: str | None = None) -> Dataset:
        """The same data with images of `size` pixels, the model's input size; data of fixed size is unchanged."""
        return self

    @property
    def transform(self) -> Transform | None:
        """How a file becomes the model's input; None if images already have the right size."""
        return None

    @property
    def model_classes(self) -> int:
        """How many classes a model for this data must have, before any mask."""
        return self.num_classes

    def class_mask(self) -> tuple[int, ...] | None:
        """The model's classes that can occur, in ascending order; None for all. Labels are positions in it."""
        return None

    def model_for(self, task: str) -> str | None:
        """The source model of a task; None for the suite's."""
        return None

    def made_by(self) -> str:
        """The command that made these images; empty for the published ones."""
        return ""

    def published(self, task: str) -> tuple[int, int] | None:
        """The published numbers of classes and images of a task, if known."""
        return None
