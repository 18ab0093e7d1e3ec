"""Timing records: exact counts and ratios to Source, with the workload and the machine."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tta_bench.checked import validate
from tta_bench.checked.annotations import Count, Whole
from tta_bench.checked.parse import from_json
from tta_bench.errors import UserError
from tta_bench.files import read_whole, write_text
from tta_bench.measure.ratio import Ratio

FORMAT = 1


@dataclass(frozen=True)
class Timing:
    """One method's figures over the workload's images."""

    settings: dict[str, Any]
    images: Count
    sample_forwards: Whole
    sample_backwards: Whole
    optimizer_steps: Whole
    ratio: Ratio | None = None  # to Source; None for Source itself, and if only counts were taken
    passes: int = 0
    seconds: float | None = None  # of one pass; comparable on the same hardware only
    uncounted_forwards: Whole = 0  # outside the passes counted above, found by their operations

    @property
    def counts(self) -> dict[str, int]:
        return {
            "sample-forwards": self.sample_forwards,
            "sample-backwards": self.sample_backwards,
            "optimiser steps": self.optimizer_steps,
            "forwards outside the model": self.uncounted_forwards,
        }


@dataclass(frozen=True)
class Identity:
    """What was requested, so that a check can repeat it, and what it resolved to, for comparison."""

    suite: str
    task: str
    batch_size: Count
    batches: Count
    threads: Count
    device: str
    methods: tuple[str, ...]  # as requested, without settings
    set: tuple[str, ...]
    weights: str
    stream: str
    images: Count
    model: str | None = None


@dataclass(frozen=True)
class Baseline:
    """The figures of all methods, with their workload and machine."""

    workload: Identity
    machine: dict[str, Any]
    noise_floor: float | None
    methods: dict[str, Timing]

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        write_text(path, json.dumps({"format": FORMAT, **asdict(self)}, indent=2, ensure_ascii=False) + "\n")


def read(path: Path) -> Baseline:
    """Read a baseline; anything wrong with it is a one-line UserError."""
    hint = "make one with `tta-bench timing record --out FILE`"
    where = f"baseline {path}"
    try:
        content = from_json(read_whole(path), where)
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise UserError(f"{where}: expected a timing record of format {FORMAT}")
        found = validate.read(Baseline, content, where)
        for name, timing in found.methods.items():
            if timing.ratio and not 0 < timing.ratio.low <= timing.ratio.value <= timing.ratio.high < math.inf:
                raise UserError(f"{where}: methods: {name}: ratio: expected 0 < low <= value <= high")
        if not any(timing.ratio for timing in found.methods.values()):
            raise UserError(f"{where}: has no method but Source, so there is nothing to check")
    except OSError as error:
        raise UserError(f"{where}: {error.strerror}; {hint}") from error
    except UserError as error:
        raise UserError(f"{error}; {hint}") from error
    return found
