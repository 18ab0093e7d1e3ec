"""Records that earlier versions wrote keep their keys and their bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tta_bench.records.record import Record

WRITTEN = Path(__file__).parents[1] / "golden" / "records"
KEYS = {
    "sar": "7a7d8bb07b85a20e2eba2ad7b297c21016e9c0cbb1604d23604d69f2a9990a17",  # from results/board
    "live": "b5d0d76431234bc5b0320a589c6a626a07f66cc90ac21620f7b55a2588574f18",
    "failed": "3834dfa310dadb54fe41e9f57fdb3377ca1f7fdbc319cce1622b027297c33807",
}


@pytest.mark.parametrize("name", KEYS)
def test_an_older_record_keeps_its_key_and_its_bytes(name: str) -> None:
    content = (WRITTEN / f"{name}.json").read_bytes()
    record = Record.from_bytes(content, name)
    assert record.cell.key == KEYS[name]
    assert record.to_bytes() == content


def test_a_row_name_is_no_part_of_the_key() -> None:
    record = Record.from_bytes((WRITTEN / "live.json").read_bytes(), "live")
    assert record.label == "tent (slow)"
    assert record.labelled("tent").cell == record.cell
    assert record.labelled("tent").cell.key == record.cell.key


def test_a_spec_in_a_record_is_the_request_that_gives_its_cell() -> None:
    live, failed = (Record.from_bytes((WRITTEN / f"{n}.json").read_bytes(), n).cell for n in ("live", "failed"))
    assert live.spec.data == {"kind": "digits-c", "severity": 5}
    assert live.found.data == {"transform": {"resize": 32}, "made_by": "x"}
    assert live.spec.settings == {"lr": 0.1}, "its seed is the cell's"
    assert failed.spec.settings == {"seed": 7}, "its seed was asked for"
    assert replace(failed, spec=replace(failed.spec, settings={})).key != failed.key
