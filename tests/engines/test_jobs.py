"""Job files, what workers say, the queue and the order of cells; without processes."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import (
    entry_of,
    failed,
    leave_try,
    made,
    make_entry,
    make_job,
    make_spec,
    make_specs,
    save_made,
)
from tests.support.records import changed, make_cell
from tta_bench.cli.main import main
from tta_bench.engines.alive import Life, Sign
from tta_bench.engines.job import JobFolder
from tta_bench.engines.queue import Queue
from tta_bench.engines.status import status
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.runs.site import Site


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", "s")


def test_a_job_survives_its_file(store: Store) -> None:
    job = replace(make_job("local", 2), site=asdict(Site(cache=Path("/c"))), in_seconds=True)
    read = JobFolder.create(store, job).read()
    assert replace(read, site=job.site) == job
    assert read.at == Site(cache=Path("/c"))


def test_a_wrong_job_is_one_line(store: Store) -> None:
    with pytest.raises(UserError, match="has no job 'x' .known: none."):
        JobFolder(store, "x").read()
    folder = JobFolder.create(store, make_job("local"))
    content = json.loads((folder.path / "job.json").read_text())
    (folder.path / "job.json").write_text(json.dumps({**content, "workers": "two"}))
    with pytest.raises(UserError, match="job.json.*workers.*expected a whole number"):
        folder.read()


def test_a_job_is_looked_for_in_its_folder_alone(store: Store) -> None:
    with pytest.raises(UserError, match=r"run has no job '\.\./\.\.' \(known: none\)$"):
        JobFolder(store, "../..").read()


@pytest.mark.parametrize(
    "handle",
    [
        {"engine": "slurm", "workers": 1},
        {"engine": "local", "workers": 1},
        {"engine": "slurm"},
        {"engine": "slurm", "workers": "x"},
        {"engine": "slurm", "workers": 10**12},
        {"workers": 1},
        [],
    ],
)
def test_a_damaged_handle_is_one_line(
    handle: object, store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`status` may be asked about a stranger's folder."""
    monkeypatch.setattr("tta_bench.engines.slurm.shutil.which", lambda name: f"/usr/bin/{name}")
    folder = JobFolder.create(store, make_job("local"))
    (folder.path / "handle.json").write_text(json.dumps(handle))
    assert main(["status", "--cancel", str(store.folder)]) == 2
    assert f"{folder.path}/handle.json: damaged" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["job.json", "handle.json", "0.json"])
def test_a_pipe_in_a_job_is_not_waited_for(name: str, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    job = make_job("manual")
    folder = JobFolder.create(store, job)
    folder.keep_handle(job, {})
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)
    assert main(["status", str(store.folder)]) == 2
    assert capsys.readouterr().err == f"tta-bench: error: {folder.path / name}: expected a plain file\n"


def test_jobs_that_can_be_cancelled_are(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for engine, handle in (("manual", {}), ("made", {})):
        job = make_job(engine)
        JobFolder.create(store, job).keep_handle(job, handle)
    assert main(["status", "--cancel", str(store.folder)]) == 2
    shown = capsys.readouterr().err
    assert "its workers were started by hand: end them where they run; unknown engine 'made'" in shown


def test_the_end_of_a_long_log_is_shown(store: Store) -> None:
    folder = JobFolder.create(store, make_job("local"))
    folder.log(0).write_text("noise\n" * 100_000 + "killed\n")
    assert folder.last_lines(0) == "noise / noise / noise / noise / killed"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"weights": "other"}, "weights"),
        ({"images": "other"}, "images"),
        ({"method_code": "other"}, "code"),
        ({"harness": "other", "weights": "other"}, "code and weights"),
        ({"batch_size": 11}, "settings"),
    ],
)
def test_a_mismatch_says_what_differs(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(UserError) as raised:
        entry_of(make_cell("tent")).require(make_cell("tent", **changes))
    fix = "install the same versions and data there"
    assert str(raised.value) == f"{socket.gethostname()} has other {what} than the machine of `tta-bench run`: {fix}"


def test_another_device_is_no_mismatch() -> None:
    entry_of(make_cell("tent")).require(make_cell("tent", device="cuda"))


def test_workers_start_with_different_cells(store: Store) -> None:
    entries = [make_entry(spec) for spec in make_specs(4, 1, 1)]
    assert [Queue(store, entries, "auto").next(index) for index in range(5)] == [*entries, entries[-1]]


def test_what_has_a_record_or_a_living_claim_is_not_to_be_done(store: Store) -> None:
    entries = [make_entry(spec) for spec in make_specs(4, 1, 1)]
    queue = Queue(store, entries, "auto")
    save_made(entries[0], store)
    with store.claim(made(entries[1].spec).cell):
        assert queue.next() == entries[2]
        save_made(entries[2], store)
        save_made(entries[3], store)
        assert queue.next() is None
    assert queue.next() == entries[1], "its process has gone without a record"
    assert set(queue.ended) == {entry.spec.digest for entry in (entries[0], *entries[2:])}


def test_a_cell_that_has_ended_too_many_workers_is_left_alone(store: Store) -> None:
    entry = make_entry()
    queue = Queue(store, [entry], "auto", retries=1)
    leave_try(store, entry)
    assert queue.next() == entry
    leave_try(store, entry)
    assert queue.next() is None


def test_an_earlier_failure_is_replaced_and_a_new_one_is_not(store: Store) -> None:
    old = failed(make_entry(), store)
    queue = Queue(store, [make_entry(before=old.finished_at)], "auto")
    assert queue.next() is not None
    store.save(replace(old, finished_at="2026-01-02T00:00:00+00:00"), None)
    assert queue.next() is None


@pytest.mark.parametrize(("device", "is_done"), [("auto", True), ("cpu", True), ("cuda:1", False)])
def test_a_record_of_another_device_counts_unless_a_device_was_asked_for(
    device: str, is_done: bool, store: Store
) -> None:
    save_made(make_entry(), store)
    assert (Queue(store, [make_entry()], device).next() is None) == is_done


def test_a_job_names_no_file_outside_its_folder(store: Store) -> None:
    """A stranger's job could otherwise let us lock, or delete, any file."""
    folder = JobFolder.create(store, make_job())
    file = folder.path / "job.json"
    content = json.loads(file.read_text())
    content["cells"][0]["identity"] = "../../x"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="identity: expected a hash of 64 hexadecimal digits, got '../../x'"):
        folder.read()


@pytest.mark.parametrize("name", ["0.json", "tries"])
def test_a_link_in_a_strangers_folder_is_not_written_through(name: str, store: Store, tmp_path: Path) -> None:
    folder, entry = JobFolder.create(store, make_job()), make_entry()
    target = tmp_path / "precious"
    target.write_text("mine")
    store.claims.mkdir()
    link = folder.life_file(0) if name == "0.json" else store.tries_file(entry.identity)
    link.symlink_to(target)
    with pytest.raises(UserError, match="cannot be written"):
        Sign(folder.life_file(0)).show() if name == "0.json" else leave_try(store, entry)
    assert target.read_text() == "mine"


@pytest.mark.parametrize("content", ['{"spec": "a"', "[]", '{"images": "many"}', '{"at": Infinity}', "[" * 100_000, ""])
def test_a_damaged_file_of_a_worker_is_skipped(content: str, tmp_path: Path) -> None:
    path, before = tmp_path / "0.json", Life(spec="b")
    path.write_text(content)
    assert Life.read(path, before) is before
    assert Life.read(path) == Life()


def test_a_worker_writes_over_what_it_said_before(tmp_path: Path) -> None:
    sign = Sign(tmp_path / "0.json")
    sign.on_warning("a long warning " * 20)
    sign.on_start(make_spec(), 100)
    sign.show(warnings=[])
    sign.on_record(made(make_spec()), is_new=True)
    found = Life.read(tmp_path / "0.json")
    assert (found.spec, found.of, found.done, found.warnings, found.pid) == ("", 100, 1, [], os.getpid())
    assert (tmp_path / "0.json").read_text().count("\n") == 1


def test_status_counts_cells_and_estimates_the_time_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = make_specs(2, 2, 1)
    job = make_job("local", 1, specs)
    folder = JobFolder.create(store, job)
    folder.keep_handle(job, {"host": "elsewhere", "processes": [{}]})
    seconds = {"adapt": 8.0, "first_batch": 1.0, "load": 1.0, "prepare": 0.5, "build": 0.5}
    record = save_made(job.cells[0], store)
    store.save(changed(record, seconds=seconds), None)
    life = Life(host="n1", pid=1, at=112.0, spec=specs[1].digest, since=110.0, images=40, of=100, accuracy=0.5, done=1)
    Sign(folder.life_file(0)).show(**{name: getattr(life, name) for name in ("host", "spec", "since", "images", "of")})
    monkeypatch.setattr("tta_bench.engines.status.time.time", lambda: 114.0)
    found = status(folder)
    assert (found.done, found.running, found.waiting, found.failed) == (1, 1, 2, 0)
    assert found.seconds_left == pytest.approx(26.0), "three cells of 10 s, of which 4 s are over"
    (worker,) = found.workers
    assert (worker.life.host, worker.life.images, worker.life.of) == ("n1", 40, 100)


def test_status_says_what_a_worker_refused(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    job = make_job("manual", 1, make_specs(2, 1, 1))
    folder = JobFolder.create(store, job)
    folder.keep_handle(job, {})
    Sign(folder.life_file(0)).show(host="n1", exit="refused: n1 has other code")
    assert main(["status", str(store.folder)]) == 0
    shown = capsys.readouterr().out
    assert "ended, 0 cells done (refused: n1 has other code)" in shown
    assert "No worker is left for waiting cells" in shown


def test_status_of_a_run_without_jobs(small_suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--suite", str(small_suite), "--limit", "32", "--in-process", "--out", str(tmp_path / "run")]
    assert main([*words, "--methods", "source", "--tasks", "contrast"]) == 0
    capsys.readouterr()
    assert main(["status", str(tmp_path / "run")]) == 0
    assert "cells: 1 done, 0 failed, 0 running, 0 of the newest command's 1 left" in capsys.readouterr().out
    gone = {"suite": str(tmp_path / "gone.yaml")}
    Store.open(tmp_path / "run").note_command(["x"], ["contrast"], ["source"], options=gone)
    assert main(["status", str(tmp_path / "run")]) == 0
    assert "cells: 1 done, 0 failed, 0 running\n" in capsys.readouterr().out
