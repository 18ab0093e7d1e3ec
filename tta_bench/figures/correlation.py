"""`correlation`: how the predicted domain shift correlates with each image patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tta_bench.figures import inspected, style
from tta_bench.figures.inspected import Example

Block = Literal["first", "last"]


@dataclass(frozen=True)
class Correlation:
    block: Block
    examples: list[Example]
    maps: NDArray[np.float32]  # of all inspected images: Pearson's r of the shift feature with each patch token
    notes: tuple[str, ...] = ()


def data(folder: Path, block: Block = "last", tasks: Sequence[str] = ()) -> Correlation:
    """The kept images of the tasks with their maps."""
    found = inspected.read(folder, tasks, needs=(f"correlation_{block}",))
    return Correlation(block, inspected.examples(found, tasks), getattr(found, f"correlation_{block}"))


def draw(found: Correlation) -> style.Figure:
    figure, panels = inspected.grid(found.examples, ["correlation"], style.COLUMN, row=0.66, extra=0.25)
    drawn = found.maps[[example.at for example in found.examples]]
    for axes, values in zip(panels[:, 0], drawn, strict=True):
        heat = inspected.heat(axes, values, float(drawn.min()), float(drawn.max()))
    bar = figure.colorbar(heat, ax=panels[:, 0], shrink=min(1.0, 1.4 / figure.get_figheight()), pad=0.04)
    bar.set_label(f"r of shift and patch, {found.block} block")
    return figure
