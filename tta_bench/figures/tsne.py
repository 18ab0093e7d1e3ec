"""`tsne`: the predicted shift features of first and last block in the plane, by task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError
from tta_bench.figures import inspected, style

PERPLEXITY = 30
LEAST = 10  # images: fewer have no meaningful neighbourhoods


@dataclass(frozen=True)
class Planes:
    task: NDArray[np.str_]  # [N]
    first: NDArray[np.float32]  # [N, 2]
    last: NDArray[np.float32]
    method: str
    notes: tuple[str, ...] = ()


def data(folder: Path, tasks: Sequence[str] = ()) -> Planes:
    """Both planes, each fitted on all images of these tasks."""
    found = inspected.read(folder, tasks, needs=("shift_first", "shift_last"))
    chosen = inspected.chosen(found, tasks)
    if len(chosen) < LEAST:
        raise UserError(f"{folder}: {len(chosen)} images are too few for t-SNE: inspect with more --batches")
    return Planes(
        found.task[chosen],
        embed(found.shift_first[chosen], f"{folder}: shift features of the first block"),
        embed(found.shift_last[chosen], f"{folder}: shift features of the last block"),
        found.method,
    )


def embed(features: NDArray[np.float32], what: str) -> NDArray[np.float32]:
    """Places in the plane, the same each time."""
    from sklearn.manifold import TSNE  # slow to import

    if not np.isfinite(features).all() or not features.std(0).any():
        raise UserError(f"{what} are the same for all images: there is nothing to plot")
    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    model = TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=0, method="barnes_hut")
    plane: NDArray[np.float32] = model.fit_transform(features)
    return plane


def draw(found: Planes) -> style.Figure:
    tasks = list(dict.fromkeys(found.task.tolist()))
    columns = 4 if len(tasks) == 4 else 3
    figure = style.new_figure(style.TEXT, 2.2 + 0.17 * -(-len(tasks) // columns))
    panels = figure.subplots(1, 2)
    for axes, plane, title in zip(panels, (found.first, found.last), ("first block", "last block"), strict=True):
        for number, task in enumerate(tasks):
            look = style.look(number)
            x, y = plane[found.task == task].T
            axes.scatter(
                x, y, s=9, marker=look.marker, color=look.color, alpha=0.75, linewidths=0, label=task.replace("_", " ")
            )
        axes.set(title=title, xticks=[], yticks=[], aspect="equal", adjustable="datalim")
        axes.spines[:].set_visible(True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, markerscale=1.8, handletextpad=0.2)
    return figure
