"""What a column is: one number or fact that tables show, how to get it, and how to write it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tta_bench.records.record import Record
from tta_bench.report.values import NONE, Value

if TYPE_CHECKING:
    from tta_bench.report.rows import Comparison, Row
    from tta_bench.report.runs import Runs

# csv: leaderboard.csv; frame: `tta_bench.frame` and exports; scoring: what accuracy tables say beside them, and live of
# streams that do not wait; page, board: their tables; cost: what a page and a board list besides.
Place = Literal[
    "csv", "frame", "time", "scoring", "live", "ranking", "page", "board", "cost", "stress", "streams", "open", "orders"
]


class Line(NamedTuple):
    """One record on one of its tasks, under its row's label."""

    label: str
    task: str
    record: Record


class Context:
    """What the numbers of a row depend on besides its own records; made once per table."""

    def __init__(self, comparison: Comparison, runs: Runs | None = None) -> None:
        self.comparison, self._runs = comparison, runs

    @property
    def runs(self) -> Runs:
        assert self._runs is not None, "this place needs predictions"
        return self._runs

    @cached_property
    def timed(self) -> dict[str, list[Record]]:
        """Of each row the finished records whose times can be compared with the others'."""
        from tta_bench.report.costs import with_comparable_times

        return {row.label: row.done for row in with_comparable_times(self.comparison).rows}

    @cached_property
    def source(self) -> Row | None:
        return next((row for row in self.comparison.rows if row.is_source), None)

    @cached_property
    def source_times(self) -> list[Record]:
        return [r for row in self.comparison.rows if row.is_source for r in self.timed.get(row.label, [])]

    @cached_property
    def memory(self) -> dict[Any, Any]:
        """What several columns share, computed once."""
        return {}


@dataclass(frozen=True)
class Column:
    """One column. A place shows those that name it, by their numbers from left to right, then in the list's order."""

    key: str  # in CSV files and frames
    shown: Mapping[Place, int] = field(default_factory=dict)
    name: str = ""  # heads tables; the key if empty
    short: str = ""  # heads tables of accuracies, which are wide; the name if empty
    about: str = ""  # one line; with the unit, where the name has none
    digits: int | None = None  # of a number; None for a fact
    more_digits: int = 1  # in CSV files
    better: Literal["higher", "lower", ""] = ""
    record: Callable[[Line], Any] | None = None
    row: Callable[[Row, Context], Any] | None = None
    only: Callable[[Record], bool] | None = None  # shown where a record is such; None: everywhere

    @property
    def title(self) -> str:
        return self.name or self.key

    @property
    def head(self) -> str:
        """What heads it beside accuracies."""
        return self.short or self.title

    def of_line(self, line: Line) -> Any:
        """The fact or number of a record; a failed one has no numbers."""
        assert self.record is not None, self.key
        if self.digits is not None and line.record.status != "done":
            return math.nan
        return self.record(line)

    def of_row(self, row: Row, context: Context) -> Value:
        """The entry of a row that has finished records."""
        assert self.row is not None, self.key
        found = self.row(row, context)
        if found is None or isinstance(found, str):
            return Value(word=found or "")
        return Value(found, digits=2 if self.digits is None else self.digits)

    def text(self, found: Any) -> str:
        """What `of_line` gives, as written in a CSV file."""
        if found is None or (isinstance(found, float) and math.isnan(found)):
            return ""
        if isinstance(found, bool):
            return "yes" if found else "no"
        if self.digits is not None:
            return f"{found:.{self.digits + self.more_digits}f}"
        return json.dumps(found, sort_keys=True) if isinstance(found, dict) else str(found)


def at(place: Place, columns: Iterable[Column]) -> list[Column]:
    """The columns that a place shows, from left to right."""
    return sorted((column for column in columns if place in column.shown), key=lambda column: column.shown[place])


def entries(columns: Sequence[Column], row: Row, context: Context, failed: str = NONE) -> tuple[Value, ...]:
    """A row of a table; one without a finished record says so in each column."""
    if not row.done:
        return (Value(word=failed),) * len(columns)
    return tuple(column.of_row(row, context) for column in columns)
