"""`attention`: where the class token looks in the last block: original image, corrupted, corrupted and adapted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.figures import inspected, style
from tta_bench.figures.inspected import Example

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Attention:
    """Maps of all inspected images; the figure draws `examples`."""

    method: str
    examples: list[Example]
    maps: dict[str, Floats]  # "clean" (where there are originals), "corrupted", "adapted": shares that sum to 1
    likeness: dict[str, Floats]  # correlation of the others with "clean", image by image
    mean_likeness: dict[str, float]  # over all images of the tasks, not only those shown
    notes: tuple[str, ...] = ()


def data(folder: Path, tasks: Sequence[str] = ()) -> Attention:
    """The kept images of the tasks; attention as each patch's share of what all patches get."""
    found = inspected.read(folder, tasks, needs=("attention_adapted",))
    has_clean = len(found.attention_clean) > 0
    kinds = ["clean", "corrupted", "adapted"] if has_clean else ["corrupted", "adapted"]
    maps = {kind: shares(getattr(found, f"attention_{kind}")) for kind in kinds}
    like = {kind: correlation(maps["clean"], maps[kind]) for kind in kinds[1:]} if has_clean else {}
    among = inspected.chosen(found, tasks)
    mean = {kind: float(values[among].mean()) for kind, values in like.items()}
    return Attention(found.method, inspected.examples(found, tasks), maps, like, mean)


def shares(attention: Floats) -> Floats:
    """Maps [N, h, w] that sum to 1: what goes to class and shift tokens is left out."""
    return np.asarray(attention / attention.sum((1, 2), keepdims=True), np.float32)


def correlation(a: Floats, b: Floats) -> Floats:
    """Pearson's r of two sets of maps, map by map; 0 where one does not vary."""
    a, b = (x.reshape(len(x), -1) - x.mean((1, 2))[:, None] for x in (a, b))
    length = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(1) / np.where(length > 0, length, 1), np.float32)


def draw(found: Attention) -> style.Figure:
    names = {"clean": "original", "corrupted": "corrupted", "adapted": found.method}
    titles = [f"attention:\n{names[kind]}" for kind in found.maps]
    figure, panels = inspected.grid(found.examples, titles, style.TEXT, row=0.82, extra=0.5)
    for line, example in zip(panels, found.examples, strict=True):
        high = max(float(maps[example.at].max()) for maps in found.maps.values())
        for axes, (kind, maps) in zip(line, found.maps.items(), strict=True):
            inspected.heat(axes, maps[example.at], 0, high)
            if kind in found.likeness:
                axes.set_xlabel(f"r = {found.likeness[kind][example.at]:.2f}", labelpad=1)
    if found.mean_likeness:
        mean = ", ".join(f"{kind} {value:.2f}" for kind, value in found.mean_likeness.items())
        figure.supxlabel(f"r: likeness to the original's map; mean of all images: {mean}", fontsize=style.POINTS)
    return figure
