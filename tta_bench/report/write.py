"""From records to tables on the screen and files in a folder."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tta_bench.errors import UserError
from tta_bench.files import folder_below, write_whole, writing
from tta_bench.measure.correlation import correlation
from tta_bench.notes import Note, info
from tta_bench.records.record import Record
from tta_bench.report import differences, latex, leaderboard, render, sweep
from tta_bench.report.metrics import with_metrics
from tta_bench.report.paper import no_table, paper_table
from tta_bench.report.rows import Comparison
from tta_bench.report.runs import Runs
from tta_bench.report.stress import class_table, collapse_notes
from tta_bench.report.tables import layout, orders_table, streams_table, stress_table
from tta_bench.report.values import Table
from tta_bench.streams.scenarios import SCENARIOS

FORMATS = ("terminal", "md", "csv", "latex", "html")
DEFAULT = ("terminal", "md", "csv")


def report_runs(
    found: Sequence[Comparison],
    runs: Runs,
    folder: Path | None,
    console: Console,
    formats: Sequence[str] = DEFAULT,
    paper: str | None = None,
    *,
    stress: bool = False,
    orders: bool = False,
    metrics: Sequence[str] = (),
) -> list[Path]:
    """Everything that these formats ask for; each of several comparisons gets a folder.

    `paper` puts published numbers beside the measured ones: a paper's name or folder, or "" for the suite's own.
    `metrics` are names of installed metrics, each a column of every table.
    """
    written = []
    for comparison in (with_metrics(_with_notes(one, runs), runs, metrics) for one in found):
        tables = layout(comparison) | streams_table(comparison, runs)
        if stress:
            tables |= {"stress": stress_table(comparison, runs), "classes": class_table(comparison, runs)}
        if stress or orders:
            tables["orders"] = orders_table(comparison)
        beside = None if paper is None else paper_table(comparison, paper)
        if beside:
            tables["paper"] = beside
        if "terminal" in formats:
            for table in tables.values():
                render.show(table, console)
            if paper is not None and not beside:
                console.print(f"{no_table(comparison, paper)}\n", markup=False)
        if folder is not None:
            home = folder if len(found) == 1 else folder_below(folder, comparison.suite)
            files = _table_files(tables, comparison.suite, formats)
            written += _write(home, {**files, **_more_files(comparison, runs, formats, tables)})
    return written


def write_difference(found: differences.Difference, suite: str, folder: Path) -> list[Path]:
    """The comparison of two rows as files."""
    table = differences.table(found, suite)
    whole = replace(table, notes=(info(differences.sentence(found)), *table.notes))
    texts = {
        "compare.md": render.markdown(whole),
        "compare.csv": render.csv_text(table),
        "compare.tex": latex.fragment(whole, f"{suite}-compare"),
    }
    return _write(folder, texts)


def write_sweep(records: Sequence[Record], axis: str, folder: Path, console: Console) -> list[Path]:
    """The average of each row at each value of an axis, on the screen and as files."""
    table = sweep.table(sweep.points(records, axis), axis)
    render.show(table, console)
    return _write(folder, {"sweep.md": render.markdown(table), "sweep.csv": render.csv_text(table)})


def check_folder(folder: Path) -> None:
    """Refuse a folder for files that cannot be one, before anything is shown; creates nothing."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UserError(f"--out {folder}: {there} is a file, expected a folder")
    if not os.access(there, os.W_OK):
        raise UserError(f"--out {folder} cannot be written: choose another --out")


def _table_files(tables: dict[str, Table], title: str, formats: Sequence[str]) -> dict[str, str]:
    files = {}
    if "md" in formats:
        files["report.md"] = "\n".join(render.markdown(table) for table in tables.values())
    if "csv" in formats:
        files |= {f"{name}.csv": render.csv_text(table) for name, table in tables.items()}
    if "latex" in formats:
        files |= latex.files(tables, title)
    return files


def _more_files(comparison: Comparison, runs: Runs, formats: Sequence[str], tables: dict[str, Table]) -> dict[str, str]:
    """What needs more than the tables: the leaderboard and the page."""
    files = {}
    if "csv" in formats:
        files["leaderboard.csv"] = leaderboard.tidy_csv(comparison)
    if not {"md", "html"} & set(formats):
        return files
    close = leaderboard.close_to_best(comparison, runs)
    if "md" in formats:
        files["leaderboard.md"] = render.markdown(leaderboard.ranking(comparison, close))
    if "html" in formats:
        from tta_bench.report.page import page

        title = f"{comparison.suite}: test-time adaptation"
        shown = tables["accuracy"], tables["time"]
        files["report.html"] = page(comparison, runs.outline, title, close, tables.get("paper"), shown)
    return files


def _with_notes(comparison: Comparison, runs: Runs) -> Comparison:
    """With what the folders say: warnings, and how settings were chosen."""
    return replace(
        comparison,
        notes=(
            *(*runs.warnings(), *collapse_notes(comparison, runs), *runs.chosen()),
            *(*comparison.notes, *_measured_labels(comparison, runs)),
        ),
    )


def _measured_labels(comparison: Comparison, runs: Runs) -> list[Note]:
    """How strongly the labels of composed streams follow each other, whatever their settings promise."""
    row = next((row for row in comparison.rows if row.done), None)
    if row is None or row.first.cell.spec.scenario in SCENARIOS:
        return []
    found = [correlation(runs.predictions(record.cell).label) for record in row.done]
    run, top = (statistics.fmean(values) for values in zip(*found, strict=True))
    return [info(f"Measured: {run:.2f} images of one class in a row; the commonest class of 64 has {100 * top:.1f} %.")]


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    with writing(folder, ": choose another --out"):
        for name, text in files.items():
            write_whole(folder / name, text.encode())
    return [folder / name for name in files]
