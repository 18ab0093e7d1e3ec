"""`tta_bench.load_results`: the published records of a suite, from the installed package. Needs no torch."""

from __future__ import annotations

import json
import lzma
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.errors import UserError, did_you_mean
from tta_bench.records.conditions import Conditions
from tta_bench.records.record import Record
from tta_bench.report.frames import cells_frame
from tta_bench.report.rows import Comparison, compare
from tta_bench.suites.suite import Suite, load

if TYPE_CHECKING:
    import pandas as pd

HOME = Path(__file__).parent
SUFFIX = ".records.xz"
BETWEEN = b"\0"  # records, which are JSON
MARK = "published"


def names() -> list[str]:
    """The suites with published results."""
    return sorted(file.name.removesuffix(SUFFIX) for file in HOME.glob(f"*{SUFFIX}"))


def to_bytes(records: Iterable[Record]) -> bytes:
    """The content of a suite's file; the same records give the same bytes."""
    ordered = sorted(records, key=lambda record: (record.cell.spec.method, record.cell.slug))
    return lzma.compress(BETWEEN.join(record.to_bytes() for record in ordered), preset=9)


@cache
def records(suite: str) -> tuple[Record, ...]:
    """The published records of a suite, each checked by its digest."""
    if suite not in names():
        raise UserError(f"no published results of '{suite}'{did_you_mean(suite, names())}")
    file = HOME / f"{suite}{SUFFIX}"
    try:
        parts = lzma.decompress(file.read_bytes()).split(BETWEEN)
    except (OSError, lzma.LZMAError) as error:
        raise UserError(f"{file} cannot be read ({error}): install tta-bench again") from error
    return tuple(Record.from_bytes(part, f"{file.name}, record {number}") for number, part in enumerate(parts, 1))


def comparison(suite: str) -> Comparison:
    """The published rows of a suite as one table, in the suite's order of methods and tasks."""
    found, known = records(suite), load(suite)
    labels, tasks = [*known.methods, *known.other_methods], list(known.tasks)
    return compare(sorted(found, key=lambda one: (_rank(one.label, labels), _rank(one.cell.spec.name, tasks))))


def _rank(name: str, order: list[str]) -> int:
    """Where a name is in an order: last if it is not."""
    return order.index(name) if name in order else len(order)


def load_results(suite: str) -> pd.DataFrame:
    """The published results of a suite, one row per cell and task, with the columns of `tta_bench.frame`.

    They are the board's records as they were submitted, and come with the package: no network. `tta-bench results`
    lists the suites. `frame.attrs["notes"]` holds what a table of them would say.
    """
    if not isinstance(suite, str):
        raise UserError(f"suite: expected a name, one of {', '.join(names())}, got {suite!r}")
    found = comparison(suite)
    return cells_frame([(row.label, record) for row in found.rows for record in row.records], found.notes)


def expect(suite: str | Suite) -> None:
    """Refuse a suite that has no published rows, before anything runs beside them."""
    name = (load(suite) if isinstance(suite, str) else suite).name
    if name not in names():
        raise UserError(f"--beside {MARK}: no results of '{name}' are published (published: {', '.join(names())})")


def beside(own: Collection[Record]) -> list[Record]:
    """Published records on the very streams of these, marked by their label; UserError if there are none.

    The same suite, task, seed, order, weights, batch size, device, labels and digest of pixels. The code that makes
    the images may have been rewritten since: then these records are taken as made by the present one.
    """
    suites = {record.cell.spec.suite for record in own} & set(names())
    code = {_stream(record): record.cell.found.data_code for record in own}
    found = [record for suite in sorted(suites) for record in records(suite) if _stream(record) in code]
    if not found:
        asked = ", ".join(sorted({record.cell.spec.suite for record in own}))
        raise UserError(
            f"--beside {MARK}: no published row has the streams, weights and batch size of this run of {asked} "
            f"(published: {', '.join(names())}); --limit and other seeds make other streams"
        )
    return [_marked(record, code[_stream(record)]) for record in found]


def _stream(record: Record) -> tuple[Conditions, str]:
    """What a record ran under, with the digest of its images in place of the code that made them."""
    cell = record.cell
    images = f"{cell.spec.suite_version} {cell.found.images} {json.dumps(cell.data, sort_keys=True)}"
    return replace(cell.conditions, images=""), images


def _marked(record: Record, data_code: str) -> Record:
    cell = replace(record.cell, found=replace(record.cell.found, data_code=data_code))
    return replace(record, cell=cell).labelled(f"{record.label} ({MARK})")
