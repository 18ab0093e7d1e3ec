"""Images of unknown classes among those of the tasks.

The known images keep the order that they have without the unknown ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tta_bench.checked.options import option
from tta_bench.checked.readers import BadValue, ratio, whole
from tta_bench.errors import UserError
from tta_bench.streams.axes.base import Choice, Names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

NOISE = "noise"
MOST = 0.99  # 99 unknown images for each known one; shares near 1 need more memory than there is


def _share(given: Any) -> float:
    try:
        found = ratio(given)
    except BadValue:
        found = 1.0
    if found > MOST:
        raise BadValue(f"expected a share above 0 and at most {MOST}, got {given!r}")
    return found


def _name(given: Any) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"\w[\w.-]*", given):
        raise BadValue(f"expected {NOISE}, a suite's name or a folder's below --data-root, got {given!r}")
    return given


@dataclass(frozen=True)
class MixedIn(Choice):
    word = "open"
    axis = "open"
    about = "images of unknown classes are mixed in; accuracy ignores them, AUROC and FPR95 score their detection"

    share: float = option(None, "of the images", _share, metavar="0.2")
    data: str = option(NOISE, "noise, a suite, or a folder below --data-root", _name)
    blocks: int = option(0, "N known images, then their share of unknown ones, in turn; 0: shuffled in", whole)
    short: str = option(
        "refuse",
        "with too few unknown images: refuse, cut the known ones, or repeat",
        choices=("refuse", "cut", "repeat"),
    )

    def wanted(self, known: int) -> int:
        """How many unknown images belong to so many known ones."""
        return int(known * self.share / (1 - self.share) + 0.5)

    def fit(self, known: Sequence[Ints], unknown: Sequence[Ints], names: Names) -> tuple[list[Ints], list[Ints]]:
        """The known images of each part, and those of unknown classes that are mixed in, in random order."""
        from tta_bench.data.seeding import permutation

        kept, pools = [], []
        for part, others in zip(known, unknown, strict=True):
            own = self._cut(part, len(others), names)
            wanted, order = self.wanted(len(own)), permutation(len(others), *names, self.word)
            if len(others) < wanted and self.short != "repeat":
                raise UserError(
                    f"{self}: {len(own):,} known images need {wanted:,} of unknown classes, and '{self.data}' has "
                    f"{len(others):,}: use a smaller share, short=cut or short=repeat"
                )
            if not (len(own) and wanted and len(others)):
                raise UserError(
                    f"{self}: nothing to mix: {len(own):,} known images and {len(others):,} unknown ones: "
                    f"use another share or more images"
                )
            kept.append(own)
            pools.append(others[order.take(range(wanted), mode="wrap")])
        return kept, pools

    def _cut(self, part: Ints, unknown: int, names: Names) -> Ints:
        """As many known images as so many unknown ones suffice for, if that is asked for."""
        import numpy as np

        from tta_bench.data.seeding import permutation

        most = int(unknown * (1 - self.share) / self.share + 0.5)
        if self.short != "cut" or most >= len(part):
            return part
        return part[np.sort(permutation(len(part), *names, self.word, "cut")[:most])]

    def insert(self, ordered: Ints, number: int, known: Sequence[Ints], pools: Sequence[Ints], names: Names) -> Ints:
        """A segment's known images in their order, with unknown ones of the same parts between them.

        `number` is the segment's, from 0: one with a part of a task takes other unknown images than the next.
        """
        import numpy as np

        from tta_bench.data.seeding import permutation

        own = ordered[ordered < min(pool.min() for pool in pools)]  # the others are clean images
        part = np.searchsorted([one.min() for one in known], own, side="right") - 1
        drawn = []
        for pool, shown in zip(pools, np.bincount(part, minlength=len(pools)), strict=True):
            wanted = self.wanted(int(shown))
            drawn.append(pool[(number * wanted + np.arange(wanted)) % len(pool)])
        mixed = np.concatenate(drawn)
        mixed = mixed[permutation(len(mixed), *names, self.word)]
        return np.concatenate([ordered, mixed])[self._order(len(ordered), len(mixed), names)]

    def _order(self, known: int, unknown: int, names: Names) -> Ints:
        """Places of the known images, then of the unknown ones, in stream order."""
        import numpy as np

        from tta_bench.data.seeding import permutation

        if self.blocks:
            size = max(1, self.wanted(self.blocks))
            turn = np.concatenate([np.arange(known) // self.blocks, np.arange(unknown) // size])
            return np.argsort(turn, kind="stable")
        is_unknown = np.zeros(known + unknown, np.int64)
        is_unknown[permutation(known + unknown, *names, self.word, "places")[:unknown]] = 1
        order = np.empty(known + unknown, np.int64)
        order[is_unknown == 0], order[is_unknown == 1] = np.arange(known), known + np.arange(unknown)
        return order
