"""`speed`: accuracy of all rows against the speed of the stream, and how many batches each adapted to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tta_bench.figures import over
from tta_bench.figures.over import Over
from tta_bench.report.choose import Filter

draw = over.draw


def data(folder: Path, methods: Sequence[str] = (), where: Sequence[Filter] = ()) -> Over:
    """The rows of a folder at every speed."""
    return over.data(folder, "stream_speed", methods, where)
