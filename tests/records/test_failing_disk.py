"""A disk that is full, read-only or gone costs no finished cell, and is one line that says how to go on."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.support.cli import Cli
from tests.support.records import keep, make_record
from tests.support.works import CPU, requests
from tta_bench import files
from tta_bench.data import loading
from tta_bench.errors import RunStopped, UserError
from tta_bench.files import process_name
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.runs import execute
from tta_bench.runs.bind import Binder
from tta_bench.runs.watcher import Watcher

STEPS = ("pathlib.Path.mkdir", "tempfile.mkstemp", "os.fsync", "os.link", "tempfile.TemporaryFile")


def fail(error: int) -> OSError:
    return OSError(error, os.strerror(error))


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_while_a_folder_is_made_does_not_block_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder = tmp_path / "run"

    def full(*args: object, **kwargs: object) -> None:
        raise fail(errno.ENOSPC)

    with monkeypatch.context() as patch:
        patch.setattr(step, full)
        with pytest.raises(UserError, match="cannot be written: No space left on device"):
            Store.create(folder, "s")
    Store.create(folder, "s")
    assert keep(Store.open(folder), make_record("sar")) == Store.open(folder).records()[0]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_record_that_cannot_be_saved_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = Store.create(tmp_path / "run", "s")
    first = keep(store, make_record("source"))

    def broken(file: int) -> None:
        raise fail(number)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", broken)
        with pytest.raises(RunStopped, match=os.strerror(number)):
            keep(store, make_record("sar"))
    assert store.records() == [first]
    assert not list(store.cells.glob(".*")), "no temporary file is left"
    assert len([keep(store, make_record("sar")), *store.records()]) == 3


def test_a_run_says_what_is_saved_and_resumes(
    cli: Cli, small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("run", "--suite", small_suite, "--methods", "source", "--limit", 32, "--out", tmp_path / "run")
    real = Store.save

    def save_one(self: Store, record: Record, predictions: object) -> Record:
        if self.records():
            raise RunStopped(f"{self.folder} cannot be written (No space left on device)")
        return real(self, record, predictions)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", save_one)
        status, _, err = cli(*command)
    assert status == 2
    (line,) = err.splitlines()
    assert "No space left on device); 1 of 2 cells are saved in" in line
    assert "run the same command again to resume" in line
    status, out, _ = cli(*command)
    assert status == 0
    assert "Reused 1 of 2 cells" in out


def test_a_folder_that_vanishes_is_not_made_again(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    shutil.rmtree(store.folder)
    with pytest.raises(UserError, match="was moved or deleted while a run was writing to it: move it back"):
        keep(store, make_record("sar"))
    with pytest.raises(UserError, match="was moved or deleted"), store.claim(make_record("sar").cell):
        pass
    store.note_warnings({})
    assert not store.folder.exists()


def test_fresh_waits_for_running_processes_to_stop(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    cell = make_record("sar").cell
    with Store.open(store.folder).claim(cell) as is_ours:
        assert is_ours
        with pytest.raises(UserError, match="another process is running 1 cell in .*: stop it before --fresh"):
            store.set_aside()
    assert store.folder.exists()
    aside = store.set_aside()  # the claim of a process that ended does not count
    assert aside is not None
    assert (aside / "manifest.json").exists()


def test_temporary_files_of_killed_processes_are_removed_everywhere(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "s")
    store.note_command([], [], [])
    store.report.mkdir()
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    host, _ = process_name().rsplit("-", 1)
    places = (store.folder, store.cells, store.commands, store.report)
    left = [place / f".x.{host}-{dead.stdout.strip()}.abc" for place in places]
    for path in left:
        path.touch()
    Store.create(store.folder, "s")
    assert not any(path.exists() for path in left)


def test_files_are_as_private_as_the_umask_asks(tmp_path: Path) -> None:
    files._umask.cache_clear()
    before = os.umask(0o077)
    try:
        files.write_whole(tmp_path / "private", b"")
    finally:
        os.umask(before)
        files._umask.cache_clear()
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    files.write_whole(tmp_path / "usual", b"")
    assert (tmp_path / "usual").stat().st_mode & 0o777 == 0o666 & ~before


class Deadly:
    """Images whose reader is killed, unless it is the process of the test."""

    ids = tuple(map(str, range(8)))
    labels = np.zeros(8, np.int64)
    home = os.getpid()

    def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros((len(indices), 3, 4, 4), np.uint8)


def test_a_killed_reader_stops_the_run() -> None:
    plan = [np.arange(4), np.arange(4, 8)]
    with pytest.raises(RunStopped, match="a process that reads images died .*try fewer --readers"):
        list(loading.batches(Deadly(), plan, torch.device("cpu"), workers=1))


def test_a_stopped_run_marks_no_method_as_failed(
    small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object) -> None:
        raise RunStopped("a process that reads images died")

    store = Store.create(tmp_path / "run", "small")
    monkeypatch.setattr(execute, "run_at", stop)
    with pytest.raises(RunStopped):
        execute.run_left(requests(small_suite, limit=32), Binder(CPU), store, Watcher())
    assert store.records() == []
