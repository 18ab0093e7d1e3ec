"""What the figures of an inspection share: reading it, choosing images, drawing images and maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError, did_you_mean
from tta_bench.inspect.inspection import Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAP = "cividis"  # its lightness rises evenly, so it reads the same in grey

MISSING = {
    "shift": "method '{method}' predicts no shift features: inspect one whose features() give 'shifts'",
    "correlation": "method '{method}' predicts no shift features: inspect one whose features() give 'shifts'",
    "attention": "no attention was kept",
}


def read(folder: Path, tasks: Sequence[str], needs: Sequence[str]) -> Inspection:
    """Read an inspection; it must have these arrays and tasks."""
    found = Inspection.open(folder)
    for name in needs:
        if not len(getattr(found, name)):
            raise UserError(f"{folder}: {MISSING[name.split('_')[0]].format(method=found.method)}")
    for task in tasks:
        if task not in found.tasks:
            raise UserError(f"{folder}: no task '{task}'{did_you_mean(task, found.tasks)}")
    return found


def chosen(found: Inspection, tasks: Sequence[str]) -> NDArray[np.int64]:
    """Positions of the images of these tasks; of all images if no task is given."""
    return np.flatnonzero(np.isin(found.task, tasks or found.tasks))


def shown(found: Inspection, tasks: Sequence[str]) -> list[int]:
    """Which of the kept images belong to the tasks, as positions among them."""
    kept = np.isin(found.task[found.shown], tasks or found.tasks)
    return [int(place) for place in np.flatnonzero(kept)]


def proportion(pixels: NDArray[np.uint8]) -> float:
    """The height of an image [3, H, W] as a multiple of its width."""
    return float(pixels.shape[1] / pixels.shape[2])


def name_row(axes: Axes, task: str) -> None:
    """Write a task's name beside its images, in lines that fit beside a flat image."""
    axes.set_ylabel(task.replace("_", "\n"))


def image(axes: Axes, pixels: NDArray[np.uint8]) -> None:
    axes.imshow(pixels.transpose(1, 2, 0), interpolation="nearest")
    bare(axes)


def heat(axes: Axes, values: NDArray[Any], low: float, high: float) -> Any:
    """A map over patches, each patch one square: nothing between them was measured."""
    bare(axes)
    return axes.imshow(values, cmap=MAP, vmin=low, vmax=high, interpolation="nearest")


def bare(axes: Axes) -> None:
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(False)
