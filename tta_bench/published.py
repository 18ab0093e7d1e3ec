"""The numbers that the DPAL paper prints, for comparison; read without torch."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Published:
    """One entry of a paper's table, in percent."""

    accuracy: float
    std: float | None
    provenance: str  # "reproduced" by the paper's authors, or "cited" from other papers


@cache
def accuracies(table: str) -> dict[tuple[str, str], Published]:
    """The entries of an accuracy table by method and task; empty for a table that the paper does not have."""
    text = resources.files("tta_bench_paper").joinpath("accuracy.csv").read_text()
    return {
        (row["method"], row["task"]): Published(
            float(row["accuracy"]), float(row["std"]) if row["std"] else None, row["provenance"]
        )
        for row in csv.DictReader(text.splitlines())
        if row["table"] == table
    }


def paper_task(task: str) -> str:
    """A task as the paper's tables call it: transfers by their initials."""
    source, to, target = task.partition("-to-")
    return f"{source[0]}-{target[0]}" if to else task
