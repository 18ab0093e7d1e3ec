"""What tables are made of: values that format themselves, and rows of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tta_bench.notes import Note

NONE, MISSING, FAILED = "–", "missing", "failed"


@dataclass(frozen=True)
class Value:
    """One entry: a number with its spread over seeds, or a word."""

    mean: float = math.nan
    std: float | None = None
    word: str = ""
    digits: int = 1
    best: bool = False
    signed: bool = False  # a difference: its sign is always shown
    reasons: tuple[str, ...] = ()  # marks of the notes that say why

    def __str__(self) -> str:
        return f"{self.figure} {self.spread}".rstrip() if self.is_number else self.word or NONE

    @property
    def is_number(self) -> bool:
        return not (self.word or math.isnan(self.mean))

    @property
    def figure(self) -> str:
        """The mean as printed. Rounded once, from the exact value: a second rounding could print another digit."""
        return f"{self.mean:{'+' if self.signed else ''}.{self.digits}f}"

    @property
    def spread(self) -> str:
        return "" if self.std is None else f"±{self.std:.{self.digits}f}"

    @property
    def rank(self) -> float:
        """The mean as printed, so that values that print alike rank alike; words come last."""
        return round(self.mean, self.digits) if self.is_number else -math.inf


TableRow = tuple[str, tuple[Value, ...]]  # its label, and an entry for each column


@dataclass(frozen=True)
class Table:
    """A title, a head, rows of values and the notes that belong under them."""

    title: str
    columns: tuple[str, ...]  # without the first, which holds the labels
    rows: tuple[TableRow, ...]
    notes: tuple[Note, ...] = ()
    head: str = "method"  # of the first column


def spread(scores: Sequence[float]) -> Value:
    """Mean and sample standard deviation, where there are several."""
    if not scores:
        return Value()
    mean = statistics.fmean(scores)
    return Value(mean, _deviation(scores, mean) if len(scores) > 1 else None)


def _deviation(scores: Sequence[float], mean: float) -> float:
    """`statistics.stdev` computes with fractions, which takes as long as the rest of a large table."""
    return math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))


def mark_best(rows: Sequence[TableRow], scored_columns: int) -> tuple[TableRow, ...]:
    """Mark the best of each of the first columns, as printed: values that print alike are equally best."""
    best = [max((values[i].rank for _, values in rows), default=-math.inf) for i in range(scored_columns)]

    def marked(values: Sequence[Value]) -> tuple[Value, ...]:
        scored = zip(values[:scored_columns], best, strict=True)
        return *(replace(value, best=value.rank == top > -math.inf) for value, top in scored), *values[scored_columns:]

    return tuple((label, marked(values)) for label, values in rows)
