"""Opens every image of a task to find all unreadable ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import ImageSet
from tta_bench.errors import UserError
from tta_bench.system import cores

SHOWN = 20  # bad images named per task
TURN = 64  # images that a thread opens per progress report

OnOpened = Callable[[int, int], None]  # images opened, of how many


def refuse_bad(images: ImageSet, on_opened: OnOpened | None = None) -> None:
    """Open all images; one UserError lists the first bad ones and the count of all."""
    total, done = len(images.ids), 0
    bad: list[str] = []
    turns = np.split(np.arange(total), range(TURN, total, TURN))
    with ThreadPoolExecutor(cores()) as pool:  # threads suffice: Pillow releases the GIL to decode
        for turn, found in zip(turns, pool.map(lambda turn: _errors(images, turn), turns), strict=True):
            bad += found
            done += len(turn)
            if on_opened:
                on_opened(done, total)
    if bad:
        more = [f"and {len(bad) - SHOWN:,} more"] if len(bad) > SHOWN else []
        raise UserError("\n      ".join([f"{len(bad):,} of {total:,} images are bad:", *bad[:SHOWN], *more]))


def _errors(images: ImageSet, turn: NDArray[np.int64]) -> list[str]:
    """The error of each unreadable image."""
    errors = []
    for place in turn:
        try:
            images.read(np.array([place]))
        except UserError as error:
            errors.append(str(error))
    return errors
