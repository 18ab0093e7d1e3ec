"""Prints the table of docs/streams.md: how strongly labels follow each other, by setting and by size of the data.

python -m benchmarks.stream_signatures
"""

from __future__ import annotations

import statistics

import numpy as np

from tta_bench.measure.correlation import correlation
from tta_bench.streams.scenarios import scenario_of

SIZES = ((10, 1000), (100, 100), (1000, 50))  # classes and images of each
NOTE = "slots=classes,balance=yes,least=10"
TEXTS = (
    "normal",
    "normal+classes",
    *(f"normal+dirichlet:{delta}" for delta in ("1", "0.1", "0.01")),
    *(f"normal+dirichlet:{delta},{NOTE}" for delta in ("1", "0.1", "0.01")),
)
SEEDS = 5


def entry(text: str, classes: int, each: int) -> str:
    """The mean run and the share of the top class of 64."""
    labels = np.arange(classes * each) % classes
    plans = [scenario_of(text).plan(["fog"], [len(labels)], labels, ("signature", seed)) for seed in range(SEEDS)]
    runs, tops = zip(*(correlation(labels[plan.order]) for plan in plans), strict=True)
    mean = statistics.fmean(runs)
    return f"{mean:.{0 if mean >= 100 else 2}f} · {100 * statistics.fmean(tops):.0f} %"


def main() -> None:
    print("| labels | " + " | ".join(f"{classes} × {each:,}" for classes, each in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    for text in TEXTS:
        name = text.removeprefix("normal+").replace("normal", "shuffled")
        print(f"| `{name}` | " + " | ".join(entry(text, *size) for size in SIZES) + " |")


if __name__ == "__main__":
    main()
