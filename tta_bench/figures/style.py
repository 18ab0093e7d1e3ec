"""How all figures look: for a column of a paper, readable in print, in grey and by the colour-blind.

Rows differ in more than colour, no text is smaller than 8 points, and the same data gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tta_bench.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure  # for the other modules, too: matplotlib is optional

COLUMN, TEXT, PAGE = 3.4, 4.8, 6.9  # inches: a column of two, LNCS, a page of two columns
POINTS = 8
FORMATS = ("png", "svg", "pdf")

# Okabe and Ito's colours, which most people can distinguish; without yellow, which is too light on paper.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
LINES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (5, 1.2, 1, 1.2, 1, 1.2)))

SETTINGS: dict[str, Any] = {
    "font.size": POINTS,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    **{
        f"{name}size": POINTS
        for name in ("axes.title", "axes.label", "xtick.label", "ytick.label", "legend.font", "figure.title")
    },
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "#DDDDDD",
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "savefig.dpi": 200,
    "svg.hashsalt": "tta-bench",
    "pdf.fonttype": 42,
}


class Look(NamedTuple):
    """How one row is drawn in every figure."""

    color: str
    marker: str
    linestyle: Any


def look(number: int) -> Look:
    """The look of the n-th row: the three cycles have different lengths, so all three change."""
    return Look(COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], LINES[number % len(LINES)])


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save with the settings above; settings outside the block stay unchanged."""
    try:
        import matplotlib
    except ImportError as error:
        raise UserError("figures need matplotlib: pip install 'tta-bench[figures]'") from error
    settings: Any = SETTINGS  # matplotlib types its keys one by one
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's own matplotlibrc would change the bytes
        matplotlib.rcParams.update(settings)
        yield


def new_figure(width: float, height: float) -> Figure:
    """A figure of this many inches, without pyplot and its global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, stem: Path, formats: Sequence[str]) -> list[Path]:
    """Write a figure in each format, without dates or versions that would change its bytes."""
    from io import BytesIO

    from tta_bench.files import write_whole

    nothing: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    files = []
    for name in formats:
        buffer = BytesIO()
        figure.savefig(buffer, format=name, metadata=nothing[name])
        file = stem.with_name(f"{stem.name}.{name}")
        write_whole(file, buffer.getvalue())
        files.append(file)
    return files


def room(values: Sequence[float], least: float = 2.0) -> tuple[float, float]:
    """Limits of an axis around values, at least `least` apart, so that tenths of a percent do not look large."""
    middle, half = (min(values) + max(values)) / 2, max(0.65 * (max(values) - min(values)), least / 2)
    return middle - half, middle + half


def label_points(
    axes: Axes, points: Sequence[tuple[float, float, str]], line: Sequence[tuple[float, float]] = ()
) -> None:
    """Write a name beside each point, on a side where it covers no other name, no point and no line."""
    from matplotlib.transforms import Bbox

    figure: Any = axes.figure
    figure.canvas.draw()  # fixes the layout, so that places on the page are known
    renderer = figure.canvas.get_renderer()

    def box_at(x: float, y: float, half: float) -> Bbox:
        left, low = axes.transData.transform((x, y)) - half
        return Bbox.from_bounds(left, low, 2 * half, 2 * half)

    taken = [box_at(x, y, 5) for x, y, _ in points]
    for (x0, y0), (x1, y1) in pairwise(line):
        taken += [box_at(x0 + s / 50 * (x1 - x0), y0 + s / 50 * (y1 - y0), 1) for s in range(51)]
    frame = axes.get_window_extent(renderer)
    for x, y, name in points:
        text = axes.annotate(name, (x, y), (0, 0), textcoords="offset points")
        for dx, dy, horizontal, vertical in _SIDES:
            text.set(ha=horizontal, va=vertical)
            text.xyann = (dx, dy)
            box = text.get_window_extent(renderer)
            if not box.count_overlaps(taken) and frame.x0 <= box.x0 and box.x1 <= frame.x1:
                break
        taken.append(text.get_window_extent(renderer))


_SIDES = (
    (6, 0, "left", "center"),
    (0, 5, "center", "bottom"),
    (0, -5, "center", "top"),
    (-6, 0, "right", "center"),
    (5, 5, "left", "bottom"),
    (5, -5, "left", "top"),
    (-5, 5, "right", "bottom"),
    (-5, -5, "right", "top"),
    (0, 14, "center", "bottom"),
    (0, -14, "center", "top"),
)
