"""Job files, journals and the order of cells; without processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import make_spec, make_specs
from tests.support.records import make_cell, make_record
from tta_bench.cli.main import main
from tta_bench.engines.job import Expected, Job, JobFolder, Ticket
from tta_bench.engines.journal import Journal, Life
from tta_bench.engines.status import status
from tta_bench.engines.tickets import Hints, _passes, identity, mismatch, tickets
from tta_bench.engines.work import Queue
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.runs.site import Site

ODD = (  # lines that no worker writes
    {"at": 1.0, "event": "take"},
    {"at": "x", "event": "take", "spec": "b"},
    {"at": float("inf"), "event": "take", "spec": "b"},
    {"at": 1.0, "event": "start", "spec": "a", "images": "many"},
    {"at": 1.0, "event": "end", "spec": "a"},
    {"at": 1.0, "event": "warning"},
    {"at": 1.0, "event": ["take"]},
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", "s")


def test_source_comes_first_and_expensive_cells_next() -> None:
    specs = [make_spec(name) for name in ("tent", "dpal", "source")]
    hints = Hints({"source": 1.0, "tent": 3.0, "dpal": 6.0})
    made, in_seconds = tickets(specs, hints, [])
    assert [ticket.spec.method for ticket in made] == ["source", "dpal", "tent"]
    assert not in_seconds
    slow = make_record("tent", ms=10)
    made, in_seconds = tickets(specs, hints, [slow])
    assert in_seconds
    tent = next(ticket for ticket in made if ticket.spec.method == "tent")
    assert tent.cost == pytest.approx(sum(slow.measured.seconds[part] for part in ("adapt", "load", "build")))
    dpal = next(ticket for ticket in made if ticket.spec.method == "dpal")
    assert dpal.cost == pytest.approx(2 * tent.cost, rel=1e-3), "unknown costs follow from the passes"


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("1 forward", 1),
        ("1 forward, 1 backward", 2.2),
        ("1 forward and backward; 1 of each for reliable samples", 4.4),
        ("28 forwards", 28),
        ("", 2.2),
    ],
)
def test_passes_are_read_from_what_methods_say(text: str, passes: float) -> None:
    assert _passes(text) == passes


def test_a_job_survives_its_file(store: Store) -> None:
    expected = Expected("k", "c", "w", "i")
    job = Job("local", 2, Site(cache=Path("/c")).to_json(), (Ticket(make_spec(), 1.5, expected),), ("before",))
    folder = JobFolder.create(store, job)
    assert folder.read() == job
    assert folder.read().place == Site(cache=Path("/c"))


def test_a_wrong_job_is_one_line(store: Store) -> None:
    with pytest.raises(UserError, match="has no job 'x' .known: none."):
        JobFolder(store, "x").read()
    folder = JobFolder.create(store, Job("local", 1, Site().to_json(), (Ticket(make_spec(), 1.0),)))
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
    folder = JobFolder.create(store, Job("local", 1, Site().to_json(), (Ticket(make_spec(), 1.0),)))
    (folder.path / "handle.json").write_text(json.dumps(handle))
    assert main(["status", "--cancel", str(store.folder)]) == 2
    assert f"{folder.path}/handle.json: damaged" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["job.json", "handle.json", "0.jsonl"])
def test_a_pipe_in_a_job_is_not_waited_for(name: str, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job("manual", 1, Site().to_json(), (Ticket(make_spec(), 1.0),))
    folder = JobFolder.create(store, job)
    folder.keep_handle(job, {})
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)
    assert main(["status", str(store.folder)]) == 2
    assert capsys.readouterr().err == f"tta-bench: error: {folder.path / name}: expected a plain file\n"


def test_jobs_that_can_be_cancelled_are(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for engine, handle in (("manual", {}), ("made", {})):
        job = Job(engine, 1, Site().to_json(), (Ticket(make_spec(), 1.0),))
        JobFolder.create(store, job).keep_handle(job, handle)
    assert main(["status", "--cancel", str(store.folder)]) == 2
    shown = capsys.readouterr().err
    assert "its workers were started by hand: end them where they run; unknown engine 'made'" in shown


def test_the_end_of_a_long_log_is_shown(store: Store) -> None:
    folder = JobFolder.create(store, Job("local", 1, Site().to_json(), (Ticket(make_spec(), 1.0),)))
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
    here, there = identity(make_cell("tent")), identity(make_cell("tent", **changes))
    line = mismatch(here, there, "n2")
    assert line == f"n2 has other {what} than the coordinator: install the same versions and data there"


def test_another_device_is_no_mismatch() -> None:
    assert not mismatch(identity(make_cell("tent")), identity(make_cell("tent", device="cuda")), "n2")


def test_workers_start_with_different_tickets(store: Store) -> None:
    made = tuple(Ticket(spec, 1.0) for spec in make_specs(4, 1, 1))
    job = Job("made", 3, Site().to_json(), made)
    folder = JobFolder.create(store, job)
    first = [Queue(folder, job, index).take() for index in range(3)]
    assert first == list(made[:3])


def test_a_queue_forgets_what_others_have_finished(store: Store) -> None:
    made = tuple(Ticket(spec, 1.0) for spec in make_specs(4, 1, 1))
    job = Job("made", 2, Site().to_json(), made)
    folder = JobFolder.create(store, job)
    queue, other = Queue(folder, job, 0), Journal(folder.journal(1))
    for ticket in made[:2]:
        other.write("take", spec=ticket.spec.digest)
        other.write("end", spec=ticket.spec.digest, slug="x", status="done", new=True)
    assert queue.take() == made[2]
    assert queue.take() == made[3]
    assert not any(life.ended or life.slugs or life.seconds for life in queue._lives.values())
    assert queue.take() is None


def test_a_damaged_line_of_a_journal_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "0.jsonl"
    Journal(path).write("take", spec="a")
    with path.open("a") as file:
        file.write('{"event": "en\n[]\n' + "[" * 100_000 + "\n")
        file.writelines(f"{json.dumps(line)}\n" for line in ODD)
        file.write('{"event": "take", "sp')
    life = Life(path)
    assert len(life.follow()) == 1
    assert life.spec == "a"
    assert life.follow() == []


def test_status_counts_cells_and_estimates_the_time_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = make_specs(2, 2, 1)
    job = Job("local", 1, Site().to_json(), tuple(Ticket(s, 1.0) for s in specs))
    folder = JobFolder.create(store, job)
    folder.keep_handle(job, {"host": "elsewhere", "processes": [{}]})
    lines = [
        {"at": 100.0, "event": "worker", "host": "n1", "pid": 1},
        {"at": 100.0, "event": "take", "spec": specs[0].digest},
        {"at": 110.0, "event": "end", "spec": specs[0].digest, "slug": "x", "status": "done", "new": True},
        {"at": 110.0, "event": "take", "spec": specs[1].digest},
        {"at": 111.0, "event": "start", "spec": specs[1].digest, "images": 100},
        {"at": 112.0, "event": "batch", "images": 40, "accuracy": 0.5},
    ]
    folder.journal(0).write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr("tta_bench.engines.status.time.time", lambda: 114.0)
    found = status(folder)
    assert (found.done, found.running, found.waiting, found.failed) == (1, 1, 2, 0)
    assert found.seconds_left == pytest.approx(26.0), "three cells of 10 s, of which 4 s are over"
    (worker,) = found.workers
    assert (worker.host, worker.images, worker.of, worker.accuracy) == ("n1", 40, 100, 0.5)


def test_status_says_what_a_worker_refused(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    specs = make_specs(2, 1, 1)
    job = Job("manual", 1, Site().to_json(), tuple(Ticket(s, 1.0) for s in specs))
    folder = JobFolder.create(store, job)
    folder.keep_handle(job, {})
    journal = Journal(folder.journal(0))
    journal.write("worker", host="n1", pid=1)
    for spec in specs:
        journal.write("take", spec=spec.digest)
        journal.write("refuse", spec=spec.digest, line="n1 has other code")
    journal.write("exit", why="finished")
    assert main(["status", str(store.folder)]) == 0
    shown = capsys.readouterr().out
    assert "ended, 0 cells done (finished, refused 2 cells: n1 has other code)" in shown
    assert "No worker is left for waiting cells" in shown


def test_two_lives_in_one_journal_are_told_apart(tmp_path: Path) -> None:
    """Slurm starts a worker again whose node it thinks lost, and the first one may still run."""
    path = tmp_path / "0.jsonl"
    first, second = Journal(path), Journal(path)
    first.write("worker", host="n1", pid=1)
    first.write("take", spec="a")
    second.write("worker", host="n2", pid=1)
    second.write("take", spec="b")
    first.write("end", spec="a", slug="x", status="done", new=True)
    life = Life(path)
    life.follow()
    assert life.ended == {"a": "done"}
    assert life.slugs == {"a": "x"}
    assert (life.spec, life.host) == ("b", "n2"), "the second one is still at work"
