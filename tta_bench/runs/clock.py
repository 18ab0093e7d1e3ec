"""The costs of methods that `timing record` measured, for `--clock FILE`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.errors import UserError

if TYPE_CHECKING:
    from tta_bench.measure.baseline import Baseline
    from tta_bench.runs.options import RunOptions
    from tta_bench.runs.spec import Row
    from tta_bench.suites.suite import Suite


def measured(file: Path, suite: Suite, options: RunOptions, rows: Sequence[Row]) -> tuple[str, dict[str, float]]:
    """The name of a timing record, and the cost of each of its methods; it must be of this run."""
    from tta_bench.measure import baseline

    found = baseline.read(file)
    _refuse_other_run(found, file, suite, options, rows)
    name = f"timing record {hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
    return name, {label: 1.0 if of.ratio is None else of.ratio.value for label, of in found.methods.items()}


def _refuse_other_run(found: Baseline, file: Path, suite: Suite, options: RunOptions, rows: Sequence[Row]) -> None:
    """Refuse a timing record of another suite, model, batch size, or with other settings."""
    size = options.protocol.batch_size or options.batch_size or suite.batch_size
    there = found.workload
    for what, old, new in (
        ("suite", there.suite, suite.name),
        ("model", there.model, options.model),
        ("batch size", there.batch_size, size),
    ):
        if old != new:
            raise UserError(f"--clock {file}: recorded with {what} {old}, but this run has {new}: record it again")
    for row in rows:
        if row.label not in found.methods:
            names = ", ".join(found.methods)
            raise UserError(f"--clock {file}: has no method '{row.label}' (it has {names}): record it again")
        given = found.methods[row.label].settings
        for key, value in row.settings.items():
            if given.get(key) != value:
                theirs = f"{key}={given.get(key)}"
                raise UserError(f"--clock {file}: recorded '{row.label}' with {theirs}, but this run has {key}={value}")
