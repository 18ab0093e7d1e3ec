"""What every choice on an axis is: a word, and settings as fields, written as `word:value,key=value`."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tta_bench.checked.options import default_of, read_one
from tta_bench.errors import UserError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

Names = tuple[object, ...]  # seed every draw

# In the order in which they act, and in which a composition names its choices.
AXES = {
    "domains": "how tasks follow each other",
    "order": "the order of tasks",
    "laps": "how often all tasks come",
    "clean": "clean images among the tasks",
    "prior": "how many images of each class there are",
    "labels": "the order of images within a task",
    "draw": "whether tasks share their order",
    "open": "images of unknown classes",
    "cut": "where batches end",
    "reset": "when a method returns to its start",
    "freeze": "when a method stops adapting",
}


class Segment(NamedTuple):
    """Images that are put in order together."""

    positions: Ints  # in the joined parts
    names: Names
    is_shuffled: bool = False  # already in random order
    tasks: Ints | None = None  # the place of each position's task in the order of tasks; None: one task


@dataclass(frozen=True)
class Choice:
    """One choice on one axis. The fields of a subclass are its settings, made with `tta_bench.checked.options.option`.

    Whatever it draws depends on the names that it is given and on nothing else.
    """

    word: ClassVar[str]
    axis: ClassVar[str]
    about: ClassVar[str]

    def __str__(self) -> str:
        """The choice as a command line has it; settings at their defaults are left out."""
        changed = [
            _text(getattr(self, f.name)) if number == 0 else f"{f.name}={_text(getattr(self, f.name))}"
            for number, f in enumerate(fields(self))
            if not self._is_default(f)
        ]
        return ":".join([self.word, *([",".join(changed)] if changed else [])])

    def _is_default(self, f: Field[Any]) -> bool:
        return bool(getattr(self, f.name) == default_of(f))

    @classmethod
    def read(cls, given: str) -> Choice:
        """The choice with these settings, as in `0.1,slots=100`; the first may be given without its name."""
        known = {f.name: f for f in fields(cls)}
        found: dict[str, Any] = {}
        for number, part in enumerate(given.split(",") if given else ()):
            key, mark, value = part.partition("=")
            if not mark and number == 0 and known:
                key, value = next(iter(known)), part
            if key not in known:
                raise UserError(f"{cls.word}: unknown setting '{key}'{did_you_mean(key, known)}")
            if key in found:
                raise UserError(f"{cls.word}: {key} is given twice")
            try:
                found[key] = read_one(known[key], value)
            except UserError as error:
                raise UserError(f"{cls.word}: {error}") from None
        missing = [name for name, f in known.items() if name not in found and default_of(f) is None]
        if missing:
            raise UserError(f"{cls.word}: needs {missing[0]}, as in {cls.word}:{cls.example()}")
        return cls(**found)

    @classmethod
    def usage(cls) -> str:
        """Its settings with their defaults, the first one as it may be given."""
        return ", ".join(f"{f.name}={'…' if default_of(f) is None else _text(default_of(f))}" for f in fields(cls))

    @classmethod
    def example(cls) -> str:
        """A value for the first setting."""
        return str(fields(cls)[0].metadata["metavar"] or "VALUE") if fields(cls) else ""


def _text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
