"""What a timing record holds: exact counts and ratios to Source, with where and on what they were measured."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tta_bench.errors import UserError
from tta_bench.timing.ratio import Ratio

FORMAT = 1


@dataclass(frozen=True)
class Timing:
    """One method's figures over the workload's images."""

    settings: dict[str, Any]
    images: int
    sample_forwards: int
    sample_backwards: int
    optimizer_steps: int
    ratio: Ratio | None = None  # to Source; none for Source itself, and where only counts were taken
    passes: int = 0
    seconds: float | None = None  # of one pass; comparable on the same hardware only

    @property
    def counts(self) -> dict[str, int]:
        return {
            "sample-forwards": self.sample_forwards,
            "sample-backwards": self.sample_backwards,
            "optimiser steps": self.optimizer_steps,
        }


@dataclass(frozen=True)
class Baseline:
    """All methods' figures, the workload they speak of, and the machine."""

    workload: dict[str, Any]
    machine: dict[str, Any]
    noise_floor: float | None
    methods: dict[str, Timing]

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=2, ensure_ascii=False)
        part = path.with_name(path.name + f".{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text + "\n")
            part.replace(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror})") from error


def read(path: Path) -> Baseline:
    """A baseline from its file; whatever is wrong with it is one line."""
    hint = "make one with `tta-bench timing record --out FILE`"
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"baseline {path}: {error.strerror}; {hint}") from error
    except ValueError as error:
        raise UserError(f"baseline {path}: no JSON ({error}); {hint}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UserError(f"baseline {path}: expected a timing record of format {FORMAT}; {hint}")
    try:
        methods = {name: _timing(values) for name, values in data["methods"].items()}
        return Baseline(data["workload"], data["machine"], data["noise_floor"], methods)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"baseline {path}: damaged ({type(error).__name__}: {error}); {hint}") from error


def _timing(values: dict[str, Any]) -> Timing:
    ratio = values.pop("ratio")
    return Timing(**values, ratio=Ratio(**ratio) if ratio else None)
