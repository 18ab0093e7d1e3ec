"""Prints what an order of a million images costs: CPU seconds and peak memory, for each choice and preset.

python -m benchmarks.stream_cost [SCENARIO …]
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from typing import NamedTuple

import numpy as np

from tta_bench.data.families import CORRUPTIONS
from tta_bench.streams.composed import Composition
from tta_bench.streams.composition import OWN
from tta_bench.streams.presets import presets
from tta_bench.streams.scenarios import scenario_of

IMAGES = 1_000_000
CLASSES = 1_000


class Cost(NamedTuple):
    """Of one order."""

    images: int  # in the stream
    held: int  # in the data
    seconds: float
    bytes: int

    @property
    def bytes_per_image(self) -> float:
        return self.bytes / max(self.images, self.held)


def texts() -> list[str]:
    """A composition with each choice, and all presets."""
    own = []
    for word, choice in OWN.items():
        if choice.axis in ("domains", "open"):  # images of unknown classes need other data
            own += [word] if choice.axis == "domains" else []
        else:
            own.append(f"continual+{word}{':' + choice.example() if choice.usage().count('…') else ''}")
    changed = {
        "continual+reset:task|batch|N": "continual+reset:task",
        "continual+recurring:20": "continual+recurring:4",
    }
    named = [name for name in presets() if scenario_of(name).on("open") is None]  # type: ignore[attr-defined]
    return [changed.get(text, text) for text in own] + named


def cost(text: str, images: int = IMAGES) -> Cost:
    """The cost of an order of about so many images of all corruptions."""
    how = scenario_of(text)
    tasks = [name for name in CORRUPTIONS[: 15 if how.joins_tasks else 1] for _ in how.severities]
    laps = how.on("laps").laps if isinstance(how, Composition) and how.on("laps") else 1
    size = max(images // len(tasks) // laps, 10 * CLASSES)
    sizes = [size] * len(tasks)
    if isinstance(how, Composition) and how.on("clean"):
        tasks, sizes = [*tasks, "clean"], [*sizes, size]
    labels = np.tile(np.arange(size) % CLASSES, len(tasks))
    tracemalloc.start()
    began = time.process_time()
    order = how.plan(tasks, sizes, labels, ("stream", "cost", 0)).order
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Cost(len(order), len(labels), seconds, peak)


def main() -> None:
    print("| scenario | images in the data | in the stream | CPU s | peak MiB | bytes per image |")
    print("|---|---|---|---|---|---|")
    for text in sys.argv[1:] or texts():
        found = cost(text)
        mib = found.bytes / 2**20
        print(
            f"| `{text}` | {found.held:,} | {found.images:,} | {found.seconds:.1f} | {mib:,.0f} "
            f"| {found.bytes_per_image:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
