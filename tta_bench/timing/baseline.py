"""What a timing record holds: exact counts and ratios to Source, with where and on what they were measured."""

from __future__ import annotations

import json
import math
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
        methods = {name: _timing(dict(values)) for name, values in data["methods"].items()}
        workload = {"methods": [_name(label) for label in methods], **data["workload"]}
        kinds = WORKLOAD if workload["model"] is None else {**WORKLOAD, "model": str}
        found = Baseline(_checked(workload, kinds), dict(data["machine"]), data["noise_floor"], methods)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"baseline {path}: damaged ({type(error).__name__}: {error}); {hint}") from error
    if not any(timing.ratio for timing in methods.values()):
        raise UserError(f"baseline {path}: holds no method but Source, so it watches nothing; {hint}")
    return found


WORKLOAD = {"suite": str, "task": str, "batch_size": int, "batches": int, "threads": int, "device": str, "set": list}
WORKLOAD |= {"weights": str, "stream": str, "images": int, "methods": list}
COUNTS = {"settings": dict, "images": int, "sample_forwards": int, "sample_backwards": int, "optimizer_steps": int}


def _name(label: str) -> str:
    """The method that was asked for, for records that kept labels only: `sar` for `sar (lr=0.01)`."""
    return label.partition(" (")[0]


def _checked(values: dict[str, Any], kinds: dict[str, type]) -> dict[str, Any]:
    """The values, if each is there and of its kind; whole numbers are counts, and some must be above 0."""
    for key, kind in kinds.items():
        value: object = values[key]
        if type(value) is not kind:
            raise TypeError(f"{key} is {value!r}, expected {kind.__name__}")
        if isinstance(value, list) and not all(isinstance(entry, str) for entry in value):
            raise TypeError(f"{key} is {value!r}, expected a list of texts")
        least = 1 if key in ("images", "batches", "batch_size", "threads") else 0
        if isinstance(value, int) and value < least:
            raise ValueError(f"{key} is {value}, expected at least {least}")
    return values


def _timing(values: dict[str, Any]) -> Timing:
    ratio = values.pop("ratio")
    found = Timing(**_checked(values, COUNTS), ratio=Ratio(**ratio) if ratio else None)
    if found.ratio is not None and not 0 < found.ratio.low <= found.ratio.value <= found.ratio.high < math.inf:
        raise ValueError(f"ratio {ratio}")
    return found
