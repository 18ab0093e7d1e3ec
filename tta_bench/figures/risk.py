"""`risk`: errors among the surest images, against how many images are answered at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tta_bench.figures import reliability, style
from tta_bench.figures.reliability import Sureness
from tta_bench.measure import confidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200
data = reliability.data


def draw(found: Sureness) -> Figure:
    figure = style.new_figure(style.COLUMN, 2.8)
    axes = figure.subplots()
    for one in found.answers:
        risk = confidence.risk_coverage(one.confidence, one.correct)
        places = np.unique(np.linspace(0, len(risk) - 1, POINTS).astype(int))
        kept = places[(places + 1) / len(risk) >= 0.02]  # a share of very few images says nothing
        look = {**style.look(one.number)._asdict(), "markevery": max(1, len(kept) // 6)}
        axes.plot(100 * (kept + 1) / len(risk), 100 * risk[kept], **look, label=one.label)
    axes.set(xlabel=f"coverage (% of images answered){found.caution}", ylabel="errors among them (%)", xlim=(0, 101))
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=3)
    return figure
