"""The kinds of figures by name, and the options of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError
from tta_bench.figures import attention, correlation, curve, pareto, reliability, risk, speed, sweep, tsne

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: dict[str, Any] = {
    "curve": curve,
    "pareto": pareto,
    "sweep": sweep,
    "speed": speed,
    "reliability": reliability,
    "risk": risk,
    "tsne": tsne,
    "attention": attention,
    "correlation": correlation,
}
OPTIONS = {
    "curve": ("tasks", "methods", "where"),
    "pareto": ("methods", "cost", "where"),
    "sweep": ("setting", "methods", "where"),
    "speed": ("methods", "where"),
    "reliability": ("methods", "where"),
    "risk": ("methods", "where"),
    "tsne": ("tasks",),
    "attention": ("tasks",),
    "correlation": ("tasks", "block"),
}


def make(kind: str, folder: Path, given: dict[str, Any]) -> tuple[Any, Figure]:
    """The data of a figure and the figure; call it inside `style.house_style`."""
    for option in given:
        if option not in OPTIONS[kind]:
            raise UserError(
                f"--{option} is no option of '{kind}' (which takes {', '.join('--' + o for o in OPTIONS[kind])})"
            )
    module = KINDS[kind]
    data: Callable[..., Any] = module.data
    found = data(folder, **given)
    figure: Figure = module.draw(found)
    return found, figure
