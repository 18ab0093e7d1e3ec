"""From records to tables on the screen and files in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tta_bench.record import Record
from tta_bench.report import render
from tta_bench.report.rows import compare
from tta_bench.report.tables import accuracy_table, time_table
from tta_bench.store import write_whole


def report(records: Iterable[Record], folder: Path, console: Console, warnings: Sequence[str] = ()) -> list[Path]:
    """Show both tables and write them as Markdown and CSV; returns the files."""
    comparison = compare(records)
    told = tuple(f"WARNING {warning}" for warning in warnings)
    comparison = replace(comparison, notes=(*told, *comparison.notes))
    tables = {"accuracy": accuracy_table(comparison), "time": time_table(comparison)}
    files = {"report.md": "\n".join(render.markdown(table) for table in tables.values())}
    files |= {f"{name}.csv": render.csv_text(table) for name, table in tables.items()}
    for table in tables.values():
        render.show(table, console)
    for name, text in files.items():
        write_whole(folder / name, text.encode())
    return [folder / name for name in files]
