"""`correlation`: how the predicted domain shift correlates with each image patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tta_bench.figures import inspected, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Block = Literal["first", "last"]


@dataclass(frozen=True)
class Example:
    task: str
    original: NDArray[np.uint8] | None
    image: NDArray[np.uint8]
    map: NDArray[np.float32]  # Pearson's r of the shift feature with each patch token


@dataclass(frozen=True)
class Correlation:
    block: Block
    examples: tuple[Example, ...]
    notes: tuple[str, ...] = ()


def data(folder: Path, block: Block = "last", tasks: Sequence[str] = ()) -> Correlation:
    """The kept images of the tasks with their maps."""
    found = inspected.read(folder, tasks, needs=(f"correlation_{block}",))
    maps = getattr(found, f"correlation_{block}")
    examples = [
        Example(
            task=str(found.task[found.shown[place]]),
            original=found.original[place] if len(found.original) else None,
            image=found.image[place],
            map=maps[found.shown[place]],
        )
        for place in inspected.shown(found, tasks)
    ]
    return Correlation(block, tuple(examples))


def draw(found: Correlation) -> Figure:
    first = found.examples[0]
    titles = [*(["original"] if first.original is not None else []), "corrupted", "correlation"]
    height = (0.2 + 0.66 * inspected.proportion(first.image)) * len(found.examples) + 0.25
    figure = style.new_figure(style.COLUMN, height)
    grid = figure.subplots(len(found.examples), len(titles), squeeze=False)
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title)
    low = min(float(example.map.min()) for example in found.examples)
    high = max(float(example.map.max()) for example in found.examples)
    drawn: Any = None
    for line, example in zip(grid, found.examples, strict=True):
        if example.original is not None:
            inspected.image(line[0], example.original)
        inspected.image(line[-2], example.image)
        inspected.name_row(line[0], example.task)
        drawn = inspected.heat(line[-1], example.map, low, high)
    bar = figure.colorbar(drawn, ax=grid[:, -1], shrink=min(1.0, 1.4 / height), pad=0.04)
    bar.set_label(f"r of shift and patch, {found.block} block")
    return figure
