"""The kinds of figures by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError
from tta_bench.figures import attention, confusion, correlation, curve, lines, pareto, reliability, sweep, tsne, visits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How each kind reads its data, with its options as parameters, and how it is drawn.
KINDS: dict[str, tuple[Callable[..., Any], Callable[[Any], Figure]]] = {
    "curve": (curve.data, curve.draw),
    "pareto": (pareto.data, pareto.draw),
    "sweep": (sweep.data, sweep.draw),
    "speed": (lines.at_speeds, lines.draw),
    "visits": (visits.data, visits.draw),
    "forgetting": (visits.forgetting, visits.draw),
    "reliability": (reliability.data, reliability.draw),
    "risk": (reliability.data, reliability.draw_risk),
    "confusion": (confusion.data, confusion.draw),
    "tsne": (tsne.data, tsne.draw),
    "attention": (attention.data, attention.draw),
    "correlation": (correlation.data, correlation.draw),
}


def make(kind: str, folder: Path, given: dict[str, Any]) -> tuple[Any, Figure]:
    """The data of a figure and the figure; call it inside `style.house_style`."""
    data, draw = KINDS[kind]
    known = [name for name in inspect.signature(data).parameters if name != "folder"]
    for option in given:
        if option not in known:
            takes = ", ".join(f"--{name}" for name in known)
            raise UserError(f"figure {kind} has no option --{option} (it takes {takes})")
    found = data(folder, **given)
    return found, draw(found)
