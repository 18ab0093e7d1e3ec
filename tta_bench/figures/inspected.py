"""What the figures of an inspection share: reading it, choosing images, drawing images and maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError, require_known
from tta_bench.figures import style
from tta_bench.inspect.inspection import Inspection

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
    require_known(tasks, found.tasks, f"{folder}: no task")
    return found


def chosen(found: Inspection, tasks: Sequence[str]) -> NDArray[np.int64]:
    """Positions of the images of these tasks; of all images if no task is given."""
    return np.flatnonzero(np.isin(found.task, tasks or found.tasks))


@dataclass(frozen=True)
class Example:
    """One kept image."""

    at: int  # its position among all inspected images
    task: str
    original: NDArray[np.uint8] | None
    image: NDArray[np.uint8]


def examples(found: Inspection, tasks: Sequence[str]) -> list[Example]:
    """The kept images of these tasks; of all tasks if none is given."""
    kept = np.flatnonzero(np.isin(found.task[found.shown], tasks or found.tasks))
    return [
        Example(
            at=int(found.shown[i]),
            task=str(found.task[found.shown[i]]),
            original=found.original[i] if len(found.original) else None,
            image=found.image[i],
        )
        for i in kept
    ]


def grid(
    shown: Sequence[Example], titles: Sequence[str], width: float, row: float, extra: float
) -> tuple[style.Figure, Any]:
    """A figure with a line of panels for each example: its original, if there is one, its image, and the maps.

    A square image takes `row` inches of height; `titles` are the maps' titles. Returns the figure and the maps' axes.
    """
    first = shown[0]
    pictures = ["original", "corrupted"] if first.original is not None else ["corrupted"]
    height, wide = first.image.shape[1:]
    figure = style.new_figure(width, (0.2 + row * height / wide) * len(shown) + extra)
    panels = figure.subplots(len(shown), len(pictures) + len(titles), squeeze=False)
    for axes, title in zip(panels[0], [*pictures, *titles], strict=True):
        axes.set_title(title)
    for line, example in zip(panels, shown, strict=True):
        shots = [pixels for pixels in (example.original, example.image) if pixels is not None]
        for axes, pixels in zip(line, shots, strict=False):
            axes.imshow(pixels.transpose(1, 2, 0), interpolation="nearest")
            bare(axes)
        line[0].set_ylabel(example.task.replace("_", "\n"))  # in lines that fit beside a flat image
    return figure, panels[:, len(pictures) :]


def heat(axes: style.Axes, values: NDArray[Any], low: float, high: float) -> Any:
    """A map over patches, each patch one square: nothing between them was measured."""
    bare(axes)
    return axes.imshow(values, cmap=MAP, vmin=low, vmax=high, interpolation="nearest")


def bare(axes: style.Axes) -> None:
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(False)
