"""What every kind of data promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tta_bench.data.images import ImageSet
from tta_bench.datasets.opening import OnOpened
from tta_bench.datasets.transform import Transform
from tta_bench.errors import UserError

SAMPLE = 3  # images of a task that `inspect` decodes


class Dataset(ABC):
    """Opens the tasks of one kind of data, and the clean source images that some methods need."""

    layout: str = ""  # what must lie below --data-root; empty if nothing must
    source_by_task: ClassVar[bool] = False  # whether tasks differ in their source images
    code: ClassVar[str]  # the module whose source decides what the images look like; its own if it names no other

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" not in vars(cls):
            cls.code = cls.__module__

    def __init__(self, root: Path | None) -> None:
        """Take the data root. Keyword arguments, which a subclass adds, are the options of a suite's `data` block.

        `open_dataset` checks them by their annotations. No file is looked at yet, so a suite can be described on a
        machine that lacks its data.
        """

    @property
    @abstractmethod
    def num_classes(self) -> int:
        """How many logits are scored: those of the mask, where there is one."""

    @abstractmethod
    def tasks(self) -> Sequence[str]:
        """Every task that can be opened."""

    @abstractmethod
    def open(self, task: str) -> ImageSet:
        """The images of a task; data that cannot be read, or is not whole, is a UserError."""

    @abstractmethod
    def inspect(self, task: str, *, sample: int | None = SAMPLE, on_opened: OnOpened | None = None) -> str:
        """Look at a task, and decode a sample of it; says what is there, or a UserError what is wrong.

        Without a sample all images are decoded, which is told to `on_opened`, and the error names all that are bad.
        """

    @abstractmethod
    def source_images(self, task: str | None = None) -> ImageSet:
        """Clean source images for `Method.prepare`, with labels as a stream of them would have.

        The task matters only where each has a source of its own. What is not there is a UserError.
        """

    def places(self, task: str) -> Sequence[Path] | None:
        """Files and folders that a change of the task's images would touch; empty for images that are in no file.

        Nothing is opened. None where that cannot be said: then the images themselves are looked at.
        """
        return None

    def source_places(self, task: str) -> Sequence[Path] | None:
        """The same for `source_images`."""
        return None

    def seems_there(self, task: str) -> bool:
        """Whether something has a task's name on disk, from a look at names alone: `open` may still refuse it.

        That nothing of this kind of data is there may be a UserError, too.
        """
        return True

    def originals(self, task: str) -> ImageSet | None:
        """The images of a task before they were corrupted, in the same order; None where there are none.

        Where the user must bring them and has not, a UserError says what to put where.
        """
        return None

    def at_severity(self, severity: int) -> Dataset:
        """The same data at another severity, for the gradual scenario."""
        raise UserError("--scenario gradual needs data with severities")

    def sized(self, size: int, interpolation: str | None = None) -> Dataset:
        """The same data with images of `size` pixels, for a model that takes them so; fixed data stays as it is."""
        return self

    @property
    def transform(self) -> Transform | None:
        """How a file becomes the model's input; None where images are made in the right size."""
        return None

    @property
    def model_classes(self) -> int:
        """How many classes a model for this data must have, before any mask."""
        return self.num_classes

    def class_mask(self) -> tuple[int, ...] | None:
        """The model's classes that can occur, in ascending order; None if all can. Labels are ranks in it."""
        return None

    def model_for(self, task: str) -> str | None:
        """The model that a task starts from; None if it is the suite's."""
        return None

    def made_by(self) -> str:
        """The command that made these images; empty if they are the published ones."""
        return ""

    def published(self, task: str) -> tuple[int, int] | None:
        """How many classes and images a task has as published, where that is known."""
        return None
