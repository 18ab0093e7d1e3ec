"""Frozen window panes, drawn rather than photographed.

The release blends five photographs of frost, which are not ours to ship. Each is replaced by a drawn sheet
with the photograph's mean colour, spread of brightness and spectrum: feathers of ice, crowded on a cloudy ground.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image as Pillow

from tta_bench.corruptions._fractal import Field, plasma
from tta_bench.corruptions._random import generator
from tta_bench.corruptions._resample import Image, to_bytes, to_float

SIDE = 512
_BARBS = 24  # side needles on each flank of a feather
_BARB_ANGLE = math.radians(50)


class _Pane(NamedTuple):
    colour: tuple[float, float, float]
    spread: float
    length: float  # of the longest feathers, in pixels
    cloud: float  # weight of the ground against the feathers


# Colour and spread were measured on the five photographs the release draws from (two look alike). Length and cloud make
# each octave of detail about as strong as theirs (docs/corruptions.md).
_PANES = (
    _Pane((0.305, 0.585, 0.650), 0.070, 60, 1.2),
    _Pane((0.787, 0.805, 0.841), 0.086, 50, 0.8),
    _Pane((0.787, 0.805, 0.841), 0.086, 110, 0.8),
    _Pane((0.540, 0.599, 0.648), 0.113, 30, 0.5),
    _Pane((0.441, 0.484, 0.528), 0.169, 130, 0.6),
)
_BLUR = 0.5
COUNT = len(_PANES)

# Edition 1: half of the photographs' finest detail, and more of the coarsest on the last two.
_FIRST_SHAPES = ((60, 1.5), (130, 0.8), (110, 0.8), (50, 0.8), (90, 0.8))
_FIRST_PANES = tuple(
    pane._replace(length=length, cloud=cloud) for pane, (length, cloud) in zip(_PANES, _FIRST_SHAPES, strict=True)
)
_FIRST_BLUR = 0.7


@lru_cache(maxsize=4 * COUNT)
def sheet(index: int, shrink: int, edition: Literal[1, 2] = 2) -> Image:
    """The pane with this index, [side, side, 3] with side 512 / shrink; the same in every process."""
    if shrink == 1:
        ice = _whole(index, edition)
    elif edition == 1:
        whole = Pillow.fromarray(to_bytes(sheet(index, 1, edition)))
        ice = to_float(np.asarray(whole.resize((SIDE // shrink, SIDE // shrink), Pillow.Resampling.BOX)))
    else:
        # As OpenCV's resize shrinks by five: it takes single pixels and averages none.
        middles = np.arange(SIDE // shrink) * shrink + shrink // 2
        ice = sheet(index, 1, edition)[np.ix_(middles, middles)]
    ice.flags.writeable = False
    return ice


def _whole(index: int, edition: Literal[1, 2]) -> Image:
    panes, blur = (_FIRST_PANES, _FIRST_BLUR) if edition == 1 else (_PANES, _BLUR)
    pane = panes[index]
    rng = generator("frost sheet", index, "")
    light = _standard(_feathers(pane.length, blur, rng)) + pane.cloud * _standard(plasma(SIDE, 1.6, rng))
    tinted = np.array(pane.colour) + pane.spread * _standard(light)[..., None]
    ice: Image = np.clip(tinted, 0, 1).astype(np.float32)
    return ice


def _standard(field: Field) -> Field:
    standard: Field = (field - field.mean()) / field.std()
    return standard


def _feathers(longest: float, blur: float, rng: np.random.Generator) -> Field:
    """A [SIDE, SIDE] field of feathers: each has a spine, with barbs that shorten towards its tip."""
    from scipy.ndimage import gaussian_filter

    count = 30 * SIDE**2 // int(longest) ** 2
    root = rng.uniform(0, SIDE, size=(count, 2))
    angle = rng.uniform(0, 2 * math.pi, size=count)
    length = longest * rng.uniform(0.3, 1, size=count) ** 2
    glint = rng.uniform(-1, 1, size=count)
    field = np.zeros((SIDE, SIDE))
    along = rng.uniform(0, 1, size=(count, _BARBS))
    spine = np.stack((np.sin(angle), np.cos(angle)), axis=-1)
    start = root[:, None] + (length[:, None] * along)[..., None] * spine[:, None]
    reach = 0.5 * length[:, None] * (1 - along) * rng.uniform(0.4, 1, size=along.shape)
    for flank in (-_BARB_ANGLE, _BARB_ANGLE):
        value = glint[:, None] + rng.uniform(-0.6, 0.6, size=along.shape)
        _draw(field, start, (angle + flank)[:, None], reach, value)
    # Spines last: a barb must not cut a spine that it crosses.
    _draw(field, root, angle, length, glint + 0.7)
    relief: Field = gaussian_filter(field, blur, mode="wrap")
    return relief


def _draw(field: Field, start: Field, angle: Field, length: Field, value: Field) -> None:
    """Draw straight strokes on the field; they wrap around its edges."""
    run = length[..., None] * np.linspace(0, 1, int(length.max()) + 2)
    rows = (start[..., 0, None] + run * np.sin(angle)[..., None]).astype(np.int64) % SIDE
    columns = (start[..., 1, None] + run * np.cos(angle)[..., None]).astype(np.int64) % SIDE
    field[rows, columns] = np.broadcast_to(value[..., None], rows.shape)
