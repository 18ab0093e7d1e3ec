"""What `evaluate` returns: answers, cost, and the difference from Source."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tta_bench.errors import UserError
from tta_bench.notes import info
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Measured
from tta_bench.report import differences
from tta_bench.report.display import Display
from tta_bench.report.stats import Stream
from tta_bench.report.values import Table, Value

if TYPE_CHECKING:
    import pandas as pd

ONE = "stream"  # the name of the only stream


class Interval(NamedTuple):
    """A difference in accuracy in percentage points, with its 95 % interval."""

    points: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What a method answered on a stream, what that cost, and Source on the same images beside it."""

    method: str
    settings: dict[str, Any]
    batch_size: int
    predictions: Predictions  # arrays in stream order: label, prediction, confidence, entropy, …
    measured: Measured  # seconds, counts of passes, resets, remarks, environment
    source: Evaluation | None = field(default=None)

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100 * float(self.predictions.correct.mean())

    @property
    def ms_per_image(self) -> float:
        """Milliseconds of `adapt` per image, without the first batch where there are others."""
        laps = self.measured.batch_seconds
        first = 0 if len(laps) == 1 else self.batch_size
        return 1000 * sum(laps[1:] or laps) / (len(self.predictions) - first)

    @property
    def passes(self) -> tuple[float, float]:
        """Forward and backward passes per image, counted."""
        images = len(self.predictions)
        return self.measured.sample_forwards / images, self.measured.sample_backwards / images

    @property
    def remarks(self) -> list[str]:
        """What the method did besides adapting, and what a reader should know."""
        return self.measured.remarks

    @property
    def difference(self) -> Interval | None:
        """How much more accurate the method is than Source, paired image by image; None without Source."""
        if self._compared is None:
            return None
        found = self._compared.overall
        return Interval(100 * found.difference, 100 * found.low, 100 * found.high)

    @cached_property
    def _compared(self) -> differences.Difference | None:
        if self.source is None:
            return None
        a, b = self.source.predictions, self.predictions
        change = b.correct.astype(np.int8) - a.correct.astype(np.int8)
        stream = Stream(ONE, ONE, 0, change, b.index, self.batch_size)
        return differences.of_streams(
            self.source.method, self.method, [(float(a.correct.mean()), float(b.correct.mean()), stream)]
        )

    def frame(self) -> pd.DataFrame:
        """One row per image, with Source's prediction beside the method's."""
        import pandas as pd

        made: pd.DataFrame = pd.DataFrame(
            {name: getattr(self.predictions, name) for name in ("label", "prediction", "confidence")}
        )
        made["correct"] = self.predictions.correct
        made["batch"] = np.arange(len(made)) // self.batch_size
        if self.source is not None:
            made["source"] = self.source.predictions.prediction
        return made

    def table(self) -> Display:
        """Accuracy, time and passes of the method and of Source."""
        rows = [*([self.source] if self.source else []), self]
        head = ("accuracy (%)", "ms/image", "forwards/image", "backwards/image")
        lines = tuple(
            (row.method, (Value(row.accuracy), *(Value(v, digits=2) for v in (row.ms_per_image, *row.passes))))
            for row in rows
        )
        title = f"{len(self.predictions):,} images in batches of {self.batch_size}"
        notes = tuple(info(f"{row.method}: {remark}.") for row in rows for remark in row.remarks)
        sentence = differences.sentence(self._compared) if self._compared else ""
        return Display(Table(title, head, lines, notes), sentence.replace(f" on {ONE}", "", 1))

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in `evaluate`: `done` holds the evaluation of the batches that both rows had finished."""

    def __init__(self, done: Evaluation) -> None:
        super().__init__(f"after {len(done.predictions):,} images; their evaluation is in `.done` of this exception")
        self.done = done


class BrokenStream(UserError):
    """The caller's batches failed midway: `done` evaluates the batches before that; None if there are none."""

    def __init__(self, text: str, done: Evaluation | None) -> None:
        super().__init__(text)
        self.done = done
