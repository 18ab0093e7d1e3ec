"""Whether a measured row may be held against the paper's, and if not, why."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tta_bench.report.fair import shipped_suite
from tta_bench.report.rows import Comparison, Row

# How the paper calls what our suites call otherwise.
ALIASES = {"dpal-official": "dpal"}
RESIZED_BILINEAR = ("class-folders", "file-list")  # kinds of data that the released code resizes
UNCLEAR_SCORE = "scored {}: the paper's text scores the first forward, its released code the second"
OWN_SOURCE = "source models fine-tuned here: the paper does not say how its own were"


def why_not(row: Row, name: str) -> list[str]:
    """Why a row and the paper's must not be compared; empty if they may."""
    cell = row.first.cell
    suite = shipped_suite(cell)
    assert suite is not None, "only a shipped suite answers a table of the paper"
    reasons = []
    if suite.model == "by-task":
        reasons.append(OWN_SOURCE)
    elif cell.model != suite.model:
        reasons.append(f"other weights: {cell.model}, the paper's are {suite.model}")
    if "made_by" in cell.data:
        reasons.append(f"images by {cell.data['made_by']}, not the published ones")
    view = cell.data.get("transform", {})
    if cell.data.get("kind") in RESIZED_BILINEAR and view.get("interpolation", "bilinear") != "bilinear":
        reasons.append(
            f"images resized {view['interpolation']}, as the model's config says; the released code: bilinear"
        )
    if cell.scenario != "normal":
        reasons.append(f"other scenario: {cell.scenario}")
    if cell.limit is not None:
        reasons.append(f"only the first {cell.limit} images of each task")
    if cell.batch_size != suite.batch_size:
        reasons.append(f"batches of {cell.batch_size} images, the paper's of {suite.batch_size}")
    if cell.amp:
        reasons.append(f"adapted in {cell.amp}")
    point = row.first.score_point
    if name == "dpal":
        reasons.append(UNCLEAR_SCORE.format("on the first" if point == "pre-update" else "on the second"))
    elif row.done and point != "pre-update":
        reasons.append(f"scored {point}, the paper's before the update")
    given = suite.methods.get(row.first.label, {})
    expected = {**defaults(cell.method), **{key: value for key, value in given.items() if key != "method"}}
    changed = {k: v for k, v in cell.own_settings.items() if k in expected and v != expected[k] and k != "seed"}
    if changed:
        told = ", ".join(f"{key}={value} for {expected[key]}" for key, value in changed.items())
        reasons.append(f"other settings than the suite's: {told}")
    return reasons


class Reasons:
    """Letters for reasons, so that a table stays narrow."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def marks(self, reasons: Sequence[str]) -> str:
        for reason in reasons:
            self.letters.setdefault(reason, chr(ord("a") + len(self.letters) % 26) * (1 + len(self.letters) // 26))
        return f"no: {' '.join(self.letters[reason] for reason in reasons)}" if reasons else "yes"

    def notes(self) -> list[str]:
        return [f"Not comparable, {letter}: {reason}." for reason, letter in self.letters.items()]


def paper_name(row: Row) -> str:
    """What the paper calls this row; a suite's variant under a label of its own is not the paper's row."""
    label, method = row.first.label, row.first.cell.method
    return ALIASES.get(method, method) if label == method else label


def left_over(comparison: Comparison, matched: dict[str, str], known: Sequence[str]) -> list[str]:
    ours = [row.label for row in comparison.rows if row.label not in matched]
    theirs = [name for name in known if name not in matched.values()]
    return [
        *([f"Not in the paper: {', '.join(ours)}."] if ours else []),
        *([f"In the paper and not measured here: {', '.join(theirs)}."] if theirs else []),
    ]


@cache
def defaults(method: str) -> dict[str, Any]:
    """A method's published settings, read from its source: importing it would import torch."""
    entry = next((e for e in metadata.entry_points(group="tta_bench.methods") if e.name == method), None)
    spec = importlib.util.find_spec(entry.module) if entry else None
    if entry is None or spec is None or spec.origin is None:
        return {}
    for node in ast.walk(ast.parse(Path(spec.origin).read_text())):
        if isinstance(node, ast.ClassDef) and node.name == entry.attr:
            for function in node.body:
                if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
                    return {a.arg: d.value for a, d in pairs if isinstance(d, ast.Constant)}
    return {}
