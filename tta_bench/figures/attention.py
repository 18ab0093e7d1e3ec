"""`attention`: where the class token looks in the last block: original image, corrupted, corrupted and adapted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tta_bench.figures import inspected, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Example:
    task: str
    original: NDArray[np.uint8] | None
    image: NDArray[np.uint8]
    maps: dict[str, Floats]  # "clean" (where there is an original), "corrupted", "adapted": shares that sum to 1
    likeness: dict[str, float]  # correlation of the others with "clean"


@dataclass(frozen=True)
class Attention:
    method: str
    examples: tuple[Example, ...]
    likeness: dict[str, float]  # mean over all inspected images, not only those shown
    notes: tuple[str, ...] = ()


def data(folder: Path, tasks: Sequence[str] = ()) -> Attention:
    """The kept images of the tasks; attention as each patch's share of what all patches get."""
    found = inspected.read(folder, tasks, needs=("attention_adapted",))
    has_clean = len(found.attention_clean) > 0
    kinds = ["clean", "corrupted", "adapted"] if has_clean else ["corrupted", "adapted"]
    maps = {kind: shares(getattr(found, f"attention_{kind}")) for kind in kinds}
    like = {kind: correlation(maps["clean"], maps[kind]) for kind in kinds[1:]} if has_clean else {}
    examples = []
    for place in inspected.shown(found, tasks):
        at = int(found.shown[place])
        examples.append(
            Example(
                task=str(found.task[at]),
                original=found.original[place] if has_clean else None,
                image=found.image[place],
                maps={kind: maps[kind][at] for kind in kinds},
                likeness={kind: float(values[at]) for kind, values in like.items()},
            )
        )
    among = inspected.chosen(found, tasks)
    return Attention(found.method, tuple(examples), {kind: float(v[among].mean()) for kind, v in like.items()})


def shares(attention: Floats) -> Floats:
    """Maps [N, h, w] that sum to 1: what goes to class and shift tokens is left out."""
    return np.asarray(attention / attention.sum((1, 2), keepdims=True), np.float32)


def correlation(a: Floats, b: Floats) -> Floats:
    """Pearson's r of two sets of maps, map by map; 0 where one does not vary."""
    a, b = (x.reshape(len(x), -1) - x.mean((1, 2))[:, None] for x in (a, b))
    length = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(1) / np.where(length > 0, length, 1), np.float32)


def draw(found: Attention) -> Figure:
    first = found.examples[0]
    pictures = ["original", "corrupted"] if first.original is not None else ["corrupted"]
    columns = len(pictures) + len(first.maps)
    row = 0.2 + 0.82 * inspected.proportion(first.image)
    figure = style.new_figure(style.TEXT, row * len(found.examples) + 0.5)
    grid = figure.subplots(len(found.examples), columns, squeeze=False)
    titles = {"clean": "attention:\noriginal", "corrupted": "attention:\ncorrupted"}
    titles["adapted"] = f"attention:\n{found.method}"
    for axes, title in zip(grid[0], [*pictures, *(titles[kind] for kind in first.maps)], strict=True):
        axes.set_title(title)
    for line, example in zip(grid, found.examples, strict=True):
        if example.original is not None:
            inspected.image(line[0], example.original)
        inspected.image(line[len(pictures) - 1], example.image)
        inspected.name_row(line[0], example.task)
        high = max(float(values.max()) for values in example.maps.values())
        for axes, (kind, values) in zip(line[len(pictures) :], example.maps.items(), strict=True):
            inspected.heat(axes, values, 0, high)
            if kind in example.likeness:
                axes.set_xlabel(f"r = {example.likeness[kind]:.2f}", labelpad=1)
    if found.likeness:
        mean = ", ".join(f"{kind} {value:.2f}" for kind, value in found.likeness.items())
        figure.supxlabel(f"r: likeness to the original's map; mean of all images: {mean}", fontsize=style.POINTS)
    return figure
