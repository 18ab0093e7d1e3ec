"""The settings of a live stream, whose images do not wait for the method; streams/schedule.py applies them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Busy = Literal["stale", "source", "released"]
BUSY = get_args(Busy)
COUNTS = "counts"
BACKWARD = 1.2  # the cost of a backward pass in forward passes, for the clock that counts passes
WAITS = "none"  # as --where shows the speed of a stream that waits


@dataclass(frozen=True)
class Live:
    """How fast images arrive, how long a method is busy with a batch, and who answers meanwhile."""

    speed: float = 0.0  # arrivals of batches during one forward of Source; 0: the stream waits
    busy: Busy = "stale"
    clock: str = COUNTS  # or the timing record that `cost` is from
    backward: float = BACKWARD
    cost: float | None = None  # of a batch, in forwards of Source; None: counted batch by batch
    adapt_every: int = 1  # adapt to every k-th batch at most

    def __post_init__(self) -> None:
        for name, least in (("speed", 0.0), ("backward", 0.0), ("cost", 0.0)):
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise ValueError(f"{name}: expected a number of at least {least:g}, got {value!r}")
            if value is not None:
                object.__setattr__(self, name, float(value))
        if self.busy not in BUSY:
            raise ValueError(f"busy: expected {', '.join(BUSY)}, got {self.busy!r}")
        if isinstance(self.adapt_every, bool) or not isinstance(self.adapt_every, int) or self.adapt_every < 1:
            raise ValueError(f"adapt-every: expected a whole number of at least 1, got {self.adapt_every!r}")

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that can change a result."""
        return asdict(self) if self.speed else {"adapt_every": self.adapt_every}

    @property
    def label(self) -> str:
        """What rows of one table share, as in `1, counts, busy stale`; `none` for a stream that waits."""
        if not self.speed:
            return WAITS
        factor = f", a backward as {self.backward:g} forwards" if self._weighs_backwards else ""
        return f"{self.speed:g}, {self.clock}{factor}, busy {self.busy}"

    @property
    def options(self) -> str:
        """The label as `tta-bench run` takes it."""
        if not self.speed:
            return "without --stream-speed"
        clock = COUNTS if self.clock == COUNTS else f"FILE ({self.clock})"
        factor = f" --backward-cost {self.backward:g}" if self._weighs_backwards else ""
        return f"with --stream-speed {self.speed:g} --clock {clock} --busy {self.busy}{factor}"

    @property
    def _weighs_backwards(self) -> bool:
        return self.clock == COUNTS and self.backward != BACKWARD


def schedule_digest(adapted: Sequence[int]) -> str:
    """A digest of the batches that a method adapted to."""
    return hashlib.sha256(",".join(map(str, adapted)).encode()).hexdigest()[:16]
