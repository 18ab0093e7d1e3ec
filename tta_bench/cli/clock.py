"""`--stream-speed`, `--clock`, `--busy`, `--backward-cost`: the live stream of a command line."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.errors import UserError
from tta_bench.records.live import BACKWARD, COUNTS, Live

if TYPE_CHECKING:
    from tta_bench.runs.choices import Choices
    from tta_bench.suites.suite import Suite
    from tta_bench.timing.baseline import Baseline


def timed(suite: Suite, choices: Choices, args: argparse.Namespace) -> Choices:
    """Add the live stream, and the costs of methods if they come from a file."""
    speed, clock = args.stream_speed, args.clock or COUNTS
    for name in ("clock", "busy", "backward_cost"):
        if not speed and getattr(args, name) is not None:
            raise UserError(f"--{name.replace('_', '-')} requires --stream-speed above 0")
    if clock != COUNTS and args.backward_cost is not None:
        raise UserError("--backward-cost requires --clock counts: a timing record has measured costs")
    if not speed:
        return replace(choices, waits=speed is not None)
    backward = BACKWARD if args.backward_cost is None else args.backward_cost
    live = Live(speed, args.busy or "stale", backward=backward)
    if clock == COUNTS:
        return replace(choices, live=live)
    from tta_bench.timing import baseline

    found = baseline.read(Path(clock))
    name = f"timing record {hashlib.sha256(Path(clock).read_bytes()).hexdigest()[:8]}"
    return replace(choices, live=replace(live, clock=name), costs=_costs(found, suite, choices, clock))


def _costs(found: Baseline, suite: Suite, choices: Choices, file: str) -> dict[str, float]:
    """The measured cost of every method in a timing record, which must be of this suite, model and batch size."""
    from tta_bench.runs.spec import row_of

    size = choices.scenario.batch_size or choices.batch_size or suite.batch_size
    there = found.workload
    for what, old, new in (
        ("suite", there.suite, suite.name),
        ("model", there.model, choices.model),
        ("batch size", there.batch_size, size),
    ):
        if old != new:
            raise UserError(f"--clock {file}: recorded with {what} {old}, but this run has {new}: record it again")
    rows = [row_of(label, suite, choices) for label in choices.methods or suite.methods]
    for row in rows:
        if row.label not in found.methods:
            names = ", ".join(found.methods)
            raise UserError(f"--clock {file}: has no method '{row.label}' (it has {names}): record it again")
        given = found.methods[row.label].settings
        for key, value in row.settings.items():
            if given.get(key) != value:
                theirs = f"{key}={given.get(key)}"
                raise UserError(f"--clock {file}: recorded '{row.label}' with {theirs}, but this run has {key}={value}")
    return {name: 1.0 if timing.ratio is None else timing.ratio.value for name, timing in found.methods.items()}
