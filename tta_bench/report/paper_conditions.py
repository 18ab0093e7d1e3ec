"""Whether a measured row may be compared with a paper's, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence

from tta_bench.checked.options import flag_of
from tta_bench.notes import Level, Note
from tta_bench.papers.baseline import other_weights, own_paper
from tta_bench.papers.paper import Paper, PaperTable
from tta_bench.records.cell import Cell
from tta_bench.report.comparable import is_anothers, shipped_suite
from tta_bench.report.rows import Comparison, Row, limit_of
from tta_bench.report.values import Value
from tta_bench.static_facts import published_settings


def paper_of(comparison: Comparison) -> Paper | None:
    """The paper that the comparison's suite reproduces."""
    return own_paper(shipped_suite(comparison.records[0].cell))


def table_for(comparison: Comparison, paper: Paper) -> PaperTable | None:
    """The table that the comparison's suites answer; of several the one whose conditions are nearest."""
    cells = [record.cell for record in comparison.records]
    if any(is_anothers(cell) for cell in cells):
        return None
    tables = paper.tables_of({cell.spec.suite for cell in cells})
    return min(tables, key=lambda table: len(_other_conditions(cells[0], table)), default=None)


def why_not(row: Row, paper: Paper, table: PaperTable) -> list[str]:
    """Why a row must not be compared with the paper's; empty if it may."""
    cell, point = row.first.cell, row.first.measured.score_point
    method, limit = paper.method(cell.spec.method), limit_of(row.records)
    reasons = [table.caveat, *_other_conditions(cell, table)]
    if limit is not None:
        reasons.append(f"only the first {limit} images of each task")
    if cell.spec.amp:
        reasons.append(f"adapted in {cell.spec.amp}")
    reasons += [f"ran with {flag_of(name)} {value}" for name, value in cell.spec.newer.items()]
    if method.caveat:
        reasons.append(method.caveat.replace("{score_point}", point or "never"))
    elif method.score_point and row.done and point != method.score_point:
        reasons.append(f"scored {point}, the paper's {method.score_point}")
    reasons.append(_other_settings(row, table))
    return [reason for reason in reasons if reason]


def _other_conditions(cell: Cell, table: PaperTable) -> list[str]:
    """What the paper states about all rows of a table and this cell does not share."""
    reasons = list(filter(None, [other_weights(table, cell.spec.model)]))
    if table.mean and cell.found.mean != table.mean:
        ours, theirs = (", ".join(f"{value:g}" for value in values) for values in (cell.found.mean, table.mean))
        reasons.append(f"images normalised with mean {ours}, the paper's with {theirs}")
    if cell.spec.data.get("allow_partial"):
        reasons.append("a part of the published images (allow_partial)")
    if "made_by" in cell.found.data:
        reasons.append(f"images by {cell.found.data['made_by']}, not the published ones")
    resized = cell.found.data.get("transform", {}).get("interpolation")
    if table.interpolation and resized and resized != table.interpolation:
        reasons.append(f"images resized {resized}, the paper's {table.interpolation}")
    settings = cell.spec.scenario_settings
    if cell.spec.scenario != table.scenario or any(settings.get(k, v) != v for k, v in table.scenario_settings.items()):
        reasons.append(f"other scenario: {cell.conditions.scenario}, the paper's is {table.scenario}")
    if table.batch_size and cell.spec.batch_size != table.batch_size:
        reasons.append(f"batches of {cell.spec.batch_size} images, the paper's of {table.batch_size}")
    return reasons


def _other_settings(row: Row, table: PaperTable) -> str:
    cell, suite = row.first.cell, shipped_suite(row.first.cell)
    given = suite.settings(row.first.label) if suite else {}
    expected = {**published_settings(cell.spec.method), **given, **table.settings.get(cell.spec.method, {})}
    changed = {k: v for k, v in cell.own_settings.items() if k in expected and v != expected[k] and k != "seed"}
    differences = ", ".join(f"{key}={value} for {expected[key]}" for key, value in changed.items())
    return f"other settings than the paper's or the suite's: {differences}" if changed else ""


class Reasons:
    """Letters for reasons, so that a table stays narrow: entries refer to notes by them."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def judge(self, reasons: Sequence[str]) -> Value:
        for reason in reasons:
            self.letters.setdefault(reason, chr(ord("a") + len(self.letters) % 26) * (1 + len(self.letters) // 26))
        letters = tuple(self.letters[reason] for reason in reasons)
        return Value(word=f"no: {' '.join(letters)}" if letters else "yes", reasons=letters)

    def notes(self) -> list[Note]:
        return [
            Note(Level.INFO, f"Not comparable, {letter}: {reason}.", letter) for reason, letter in self.letters.items()
        ]


def paper_row(row: Row, paper: Paper, table: PaperTable) -> str:
    """What the paper calls this row; a variant under a label of its own is the paper's only if the table says so."""
    label, method = row.first.label, row.first.cell.spec.method
    name = paper.method(method).row or method if label == method else label
    return table.rows.get(label, name) if table.rows else name
