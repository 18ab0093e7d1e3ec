"""Several processes on one folder: nothing is lost or done twice, and a dead process's cells are taken over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.cli import TWELVE_CELLS
from tests.support.records import make_record
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.runs.resume import is_finished


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(TWELVE_CELLS)
    return path


def start(suite: Path, *more: object) -> subprocess.Popen[str]:
    words = ["run", "--suite", suite, "--limit", 64, "--device", "cpu", "--out", suite.parent / "run", *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "tta_bench.cli.main", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def ran(shown: str) -> int:
    """How many cells a process ran itself."""
    return sum(line.startswith("[") for line in shown.splitlines())


@pytest.mark.parametrize("count", [2, *(pytest.param(count, marks=pytest.mark.slow) for count in (4, 8))])
def test_processes_share_a_fresh_folder(suite: Path, count: int) -> None:
    processes = [start(suite) for _ in range(count)]
    results = [process.communicate(timeout=600) for process in processes]
    assert [process.returncode for process in processes] == [0] * count, results
    assert sum(ran(shown) for shown, _ in results) == 12, "each cell is run by one of them"
    store = Store.open(suite.parent / "run")
    records = store.records()
    assert len(records) == len({record.cell.key for record in records}) == 12
    assert all(is_finished(record, store) for record in records)
    assert len(store.past_commands()) == count
    assert not list((suite.parent / "run" / "claims").glob("*.lock")), "finished cells leave no claims"


@pytest.mark.slow
def test_the_cells_of_a_killed_process_are_taken_over(suite: Path) -> None:
    first = start(suite)
    deadline = time.monotonic() + 120
    while not list((suite.parent / "run").glob("cells/*.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    second = start(suite)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    _, err = second.communicate(timeout=300)
    assert second.returncode == 0, err
    assert len(Store.open(suite.parent / "run").records()) == 12


def test_a_claim_is_held_by_one(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    record = make_record("sar")
    with store.claim(record.cell) as ours:
        assert ours
        code = (
            "import sys; from pathlib import Path; from tests.support.records import make_record\n"
            "from tta_bench.records.store import Store\n"
            f"store = Store.open(Path({str(store.folder)!r}))\n"
            "with store.claim(make_record('sar').cell) as ours: print(ours)"
        )
        command = [sys.executable, "-c", code]
        other = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        assert other.stdout.strip() == "False"
    with store.claim(record.cell) as ours:
        assert ours


def test_a_folder_that_another_process_is_creating_is_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".manifest.json.abc").touch()  # a process that makes it now, or died while making it
    store = Store.create(folder, "s")
    assert json.loads(store.manifest.read_text()) == {"suite": "s"}
    with pytest.raises(UserError, match="belongs to suite 's', not 'other'"):
        Store.create(folder, "other")
