"""Opens every image of a task, to find all that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import ImageSet
from tta_bench.errors import UserError
from tta_bench.system import cores

SHOWN = 20  # bad images of a task that are named
TURN = 64  # images that a thread opens before it tells

OnOpened = Callable[[int, int], None]  # images opened, of how many


def refuse_bad(images: ImageSet, on_opened: OnOpened | None = None) -> None:
    """Open all images; the bad ones are one UserError, with a line for each of the first and the count of all."""
    total, done = len(images.ids), 0
    bad: list[str] = []
    turns = np.split(np.arange(total), range(TURN, total, TURN))
    with ThreadPoolExecutor(cores()) as pool:  # threads will do: Pillow decodes without Python's lock
        for turn, found in zip(turns, pool.map(lambda turn: _bad(images, turn), turns), strict=True):
            bad += found
            done += len(turn)
            if on_opened:
                on_opened(done, total)
    if bad:
        more = [f"and {len(bad) - SHOWN:,} more"] if len(bad) > SHOWN else []
        raise UserError("\n      ".join([f"{len(bad):,} of {total:,} images are bad:", *bad[:SHOWN], *more]))


def _bad(images: ImageSet, turn: NDArray[np.int64]) -> list[str]:
    """What is wrong with each image that cannot be read."""
    told = []
    for place in turn:
        try:
            images.read(np.array([place]))
        except UserError as error:
            told.append(str(error))
    return told
