"""How a stream is run: where batches end, when a method is reset, when it stops adapting. These keep the order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tta_bench.checked.options import option
from tta_bench.checked.readers import BadValue, positive
from tta_bench.streams.axes.base import Choice

TASK, NEVER, BATCH = "task", "never", "batch"


@dataclass(frozen=True)
class SameDraw(Choice):
    word = "same-draw"
    axis = "draw"
    about = "every task shows its images in the same order"


@dataclass(frozen=True)
class Cut(Choice):
    word = "border"
    axis = "cut"
    about = "a batch ends where a task ends; without it, batches go on into the next task"


def _policy(given: Any) -> str | int:
    if given in (TASK, NEVER, BATCH):
        return str(given)
    try:
        return positive(given)
    except BadValue:
        raise BadValue(f"expected task, never, batch or a number of batches, got {given!r}") from None


@dataclass(frozen=True)
class Reset(Choice):
    word = "reset"
    axis = "reset"
    about = "when the method returns to the source: at each task, never, before each batch, or every N batches"

    policy: str | int = option(None, "task, never, batch or a number of batches", _policy, metavar="task|batch|N")


@dataclass(frozen=True)
class Freeze(Choice):
    word = "freeze"
    axis = "freeze"
    about = "the method adapts to the first N images of a stream, then only predicts"

    images: int = option(None, "N", positive, metavar="512")
