"""`python -m tta_bench.published results/board`: collect the board's records for the package."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.packed.address import run_folder
from tta_bench.published.results import HOME, SUFFIX, to_bytes
from tta_bench.records.record import Record
from tta_bench.records.store import Store


def collect(board: Path) -> dict[str, bytes]:
    """The file of each suite: every finished record of its submissions, once."""
    found: dict[str, dict[str, Record]] = defaultdict(dict)
    for run in sorted(board.glob("*/run.zip")):
        for record in Store.open(run_folder(run)).records():
            if record.status == "done":
                found[record.cell.spec.suite][record.cell.key] = record
    if not found:
        raise UserError(f"{board}: has no submissions")
    return {suite: to_bytes(records.values()) for suite, records in found.items()}


if __name__ == "__main__":
    for name, content in collect(Path(sys.argv[1])).items():
        (HOME / f"{name}{SUFFIX}").write_bytes(content)
        print(f"{name}: {len(content):,} bytes")
