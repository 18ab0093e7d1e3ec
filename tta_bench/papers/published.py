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
def tables() -> set[str]:
    """The names of all tables that the paper has."""
    files = ("accuracy.csv", "ablation.csv", "time.csv")
    return {row["table"] for file in files for row in rows(file)}


@cache
def accuracies(table: str) -> dict[tuple[str, str], Published]:
    """The entries of an accuracy table by method and task; empty for a table that the paper does not have."""
    return {
        (row["method"], row["task"]): Published(
            float(row["accuracy"]), float(row["std"]) if row["std"] else None, row["provenance"]
        )
        for row in rows("accuracy.csv", table)
    }


def paper_task(task: str) -> str:
    """A task as the paper's tables call it: transfers by their initials."""
    source, to, target = task.partition("-to-")
    return f"{source[0]}-{target[0]}" if to else task


def rows(file: str, table: str | None = None) -> list[dict[str, str]]:
    """The lines of a file of the paper's numbers, or of one table in it, in the paper's order."""
    text = resources.files("tta_bench_paper").joinpath(file).read_text()
    return [row for row in csv.DictReader(text.splitlines()) if table in (None, row["table"])]
