"""Engines: the order of cells, the coordinator and what it does when workers die; without processes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engines import Died, Made, coordinate, failed, make_spec, make_specs, save_made
from tests.records import make_cell, make_record
from tta_bench.cli.main import main
from tta_bench.engines import Options, engine_class, engines
from tta_bench.engines.base import Engine
from tta_bench.engines.coordinate import Coordinator
from tta_bench.engines.job import Expected, Job, JobFolder, Ticket
from tta_bench.engines.journal import Journal, Life
from tta_bench.engines.local import Local
from tta_bench.engines.manual import Manual
from tta_bench.engines.ray_ import _why, refuse_silent, sharing
from tta_bench.engines.session import Session
from tta_bench.engines.slurm import Slurm
from tta_bench.engines.status import status
from tta_bench.engines.tickets import Hints, _passes, identity, mismatch, tickets
from tta_bench.engines.work import Queue
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.runs.listing import Watcher
from tta_bench.runs.site import Site


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", "s")


class Seen(Watcher):
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.warnings: list[str] = []

    def on_record(self, record: Record, is_new: bool) -> None:
        self.records.append(record)

    def on_warning(self, text: str) -> None:
        self.warnings.append(text)


def test_built_in_engines_come_through_entry_points() -> None:
    assert {"local", "manual", "slurm", "ray"} <= set(engines().names())
    assert issubclass(engine_class("local"), Engine)
    with pytest.raises(UserError, match="unknown engine 'slrm'; did you mean 'slurm'"):
        Session("slrm", Options())


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_every_cell_is_done_once(store: Store, workers: int) -> None:
    done: Counter[str] = Counter()

    def count(ticket: Ticket, store: Store) -> Record:
        done[ticket.spec.digest] += 1
        return save_made(ticket, store)

    specs, seen = make_specs(3, 4, 2), Seen()
    records, lost = coordinate(Made(workers, count), store, specs, seen)
    assert not lost
    assert set(records) == {spec.digest for spec in specs}
    assert set(done.values()) == {1}
    assert len(seen.records) == len(specs)


def test_a_worker_that_dies_is_replaced_and_its_cell_given_out_again(store: Store) -> None:
    deaths: Counter[str] = Counter()

    def die_once(ticket: Ticket, store: Store) -> Record:
        if ticket.spec.method == "m1" and not deaths:
            deaths[ticket.spec.digest] += 1
            raise Died("out of memory")
        return save_made(ticket, store)

    engine, seen = Made(2, die_once), Seen()
    records, lost = coordinate(engine, store, make_specs(3, 4, 1), seen)
    assert not lost
    assert len(records) == 12
    assert engine.submitted == [2, 1], "the replacement does not wait for the others to end"
    assert len(seen.warnings) == 1
    assert "died: first / out of memory" in seen.warnings[0]


def test_a_cell_that_kills_every_worker_is_lost_with_the_logs_last_lines(store: Store) -> None:
    tries: Counter[str] = Counter()

    def die(ticket: Ticket, store: Store) -> Record:
        tries[ticket.spec.method] += 1
        if ticket.spec.method == "m1":
            raise Died("Killed")
        return save_made(ticket, store)

    records, lost = coordinate(Made(2, die), store, make_specs(3, 1, 1), retries=2)
    assert sorted(record.cell.method for record in records.values()) == ["m2", "source"]
    assert tries == {"source": 1, "m2": 1, "m1": 3}
    (one,) = lost
    assert str(one).startswith("m1 on t0, seed 0: lost: worker 0 on ")
    assert str(one).endswith("died: first / Killed (tried 3 times)")


def test_workers_that_never_start_are_not_replaced_for_ever(store: Store) -> None:
    class Broken(Made):
        def _live(self, job: JobFolder, index: int) -> Any:
            job.log(index).write_text("No module named tta_bench\n")
            return iter(())

    engine = Broken(2)
    records, lost = coordinate(engine, store, make_specs(2, 2, 1), retries=1)
    assert not records
    assert len(lost) == 4
    assert sum(engine.submitted) <= 6
    assert "No module named tta_bench" in str(lost[0])


def test_a_method_that_raises_fails_its_cell_once(store: Store) -> None:
    done: Counter[str] = Counter()

    def fail(ticket: Ticket, store: Store) -> Record:
        done[ticket.spec.digest] += 1
        return failed(ticket, store) if ticket.spec.method == "m1" else save_made(ticket, store)

    records, lost = coordinate(Made(2, fail), store, make_specs(2, 2, 1))
    assert not lost
    assert Counter(record.status for record in records.values()) == {"done": 2, "failed": 2}
    assert set(done.values()) == {1}


def test_the_next_coordinator_finds_the_jobs_of_one_that_died(store: Store) -> None:
    engine, specs = Made(2), make_specs(3, 2, 1)
    first = Coordinator(engine, "made", store, Site(), Hints(), Watcher())
    first.detach(specs)
    records, lost = coordinate(engine, store, specs)
    assert not lost
    assert len(records) == 6
    assert engine.submitted == [2], "the running job is followed, nothing is submitted again"


def test_an_interrupt_cancels_running_jobs(store: Store) -> None:
    def interrupt(ticket: Ticket, store: Store) -> Record:
        raise KeyboardInterrupt

    engine = Made(1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        coordinate(engine, store, make_specs(2, 1, 1))
    assert len(engine.cancelled) == 1
    assert engine.closed


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
    assert tent.cost == pytest.approx(sum(slow.seconds[part] for part in ("adapt", "load", "build")))
    dpal = next(ticket for ticket in made if ticket.spec.method == "dpal")
    assert dpal.cost == pytest.approx(2 * tent.cost, rel=1e-3), "unknown costs follow from the passes"


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("1 forward", 1),
        ("1 forward, 1 backward", 3),
        ("1 forward and backward; 1 of each for reliable samples", 6),
        ("28 forwards", 28),
        ("", 3),
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


def test_a_cell_that_all_workers_refuse_is_lost_with_the_reason(store: Store) -> None:
    class Refusing(Made):
        def _live(self, job: JobFolder, index: int) -> Any:
            journal = Journal(job.journal(index))
            journal.write("worker", host="n1", pid=1)
            queue = Queue(job, job.read(), index)
            while (ticket := queue.take()) is not None:
                journal.write("take", spec=ticket.spec.digest)
                journal.write("refuse", spec=ticket.spec.digest, line="n2 has other weights")
                yield "running"
            journal.write("exit", why="finished")

    engine = Refusing(2)
    records, lost = coordinate(engine, store, make_specs(2, 1, 1))
    assert not records
    assert {one.reason for one in lost} == {"n2 has other weights"}
    assert engine.submitted == [2]


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


def test_ray_workers_say_when_their_device_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.ray_.cores", lambda: 8)
    shared = {"TTA_BENCH_SHARED_DEVICE": "1"}
    assert [sharing(gpus) for gpus in (0, 0.5, 1, 2)] == [shared, shared, {}, {}]
    monkeypatch.setattr("tta_bench.engines.ray_.cores", lambda: 1)
    assert sharing(0) == {}


def test_a_damaged_line_of_a_journal_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "0.jsonl"
    Journal(path).write("take", spec="a")
    with path.open("a") as file:
        file.write('{"event": "en\n[]\n{"event": "take", "sp')
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


def test_local_workers_share_cores_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.local.cores", lambda: 8)
    monkeypatch.setattr("tta_bench.engines.local.refuse_missing_gpus", lambda gpus: None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    two = Local(Options(jobs=2))
    assert two.environment(1) == {"OMP_NUM_THREADS": "4", "TTA_BENCH_SHARED_DEVICE": "1"}
    gpus = Local(Options(gpus=(1, 3)))
    assert gpus.jobs == 2
    assert gpus.environment(1) == {"OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "3"}
    crowded = Local(Options(gpus=(1, 3), jobs=4))
    assert crowded.environment(2)["CUDA_VISIBLE_DEVICES"] == "1"
    assert crowded.environment(2)["TTA_BENCH_SHARED_DEVICE"] == "1"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("local", Options(gpus=(99,)), "--gpus 99: this machine has no GPU 99 .GPUs: "),
        ("local", Options(submit={"time": "1"}), "--slurm does not apply to --on local: use --on slurm"),
        ("local=x", Options(), "=ADDRESS does not apply to --on local: use --on ray"),
        ("slurm", Options(), "--on slurm: sbatch is not installed here: run this command on a login node"),
        ("slurm", Options(gpus=(0,)), "--gpus does not apply to --on slurm: use --on local"),
    ],
)
def test_options_that_cannot_work_are_refused(
    name: str, options: Options, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match=message):
        Session(name, options)


def test_workers_of_a_manual_job_are_started_by_hand(store: Store) -> None:
    specs, engine = make_specs(2, 1, 1), Manual(Options(jobs=1))

    def coordinator() -> Coordinator:
        return Coordinator(engine, "manual", store, Site(), Hints(), Watcher(), ask=0.0, poll=0.0)

    with pytest.raises(UserError, match="--on manual starts no workers: add --detach"):
        coordinator().run(specs)
    job = coordinator().detach(specs)
    assert engine.state(job) == ["waiting"]
    made = Made()
    made.content = job.read()
    for _ in made._live(job, 0):
        assert engine.state(job) == ["unknown"], "only its journal is known"
    assert engine.state(job) == ["ended"]


def test_zero_jobs_are_refused() -> None:
    with pytest.raises(UserError, match="jobs: expected at least 1, got 0"):
        Options(jobs=0)


def test_a_class_of_this_process_cannot_run_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from tta_bench.registry import installed

    monkeypatch.setitem(installed().given, "mine", object)
    with pytest.raises(UserError, match="method 'mine' is a class of this process, which workers cannot import"):
        Session("local", Options()).check([make_spec("mine")], Site())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--jobs", "0"], "--jobs: expected a whole number of at least 1, got '0'"),
        (["run", "--gpus", "0,0"], "--gpus: expected different GPUs, got '0,0'"),
        (["run", "--gpus", "99"], "--gpus 99: this machine has no GPU 99"),
        (["run", "--slurm", "partition=gpu"], "--slurm does not apply to --on local: use --on slurm"),
        (["run", "--on", "slurm", "--slurm", "array=1-9"], "--slurm array=…: tta-bench sets this option itself"),
        (["run", "--slurm", "=gpu"], "expected options of sbatch as in partition=gpu"),
        (["run", "--on", "kubernetes"], "unknown engine 'kubernetes'"),
        (["run", "--jobs", "2", "--methods", "tnt"], "unknown method 'tnt'; did you mean 'tent'?"),
        (["run", "--jobs", "2", "--out", "/proc/run"], "output folder /proc/run cannot be written"),
        (["work", "nowhere", "j", "0"], "nowhere is not a run folder: it has no manifest.json"),
        (["status", "nowhere"], "nowhere is not a run folder: it has no manifest.json"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tta_bench.engines.slurm.shutil.which", lambda name: f"/usr/bin/{name}")
    try:
        status = main(words)
    except SystemExit as error:
        status = int(str(error.code))
    shown = capsys.readouterr().err
    assert status == 2
    assert message in shown
    assert len(shown.strip().splitlines()) == 1


def test_ray_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--on ray: Ray is not installed: pip install 'tta-bench\[ray\]'"):
        Session("ray", Options())


@pytest.mark.parametrize(
    ("error", "address", "message"),
    [
        (RuntimeError("Version mismatch: the cluster was started with:\n Ray: 2.1"), "h:1", "another version of Ray"),
        (ConnectionError("ray client connection timeout"), "h:1", "no Ray cluster answers at h:1: ray client"),
        (ConnectionError("Could not find any running Ray instance"), "", "no Ray cluster runs here: start one with"),
    ],
)
def test_a_ray_cluster_that_cannot_be_used_is_one_line(error: Exception, address: str, message: str) -> None:
    assert message in _why(error, address)


def test_an_address_where_nothing_listens_is_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        refuse_silent(address)
        refuse_silent(f"ray://{address}")
    for silent in (address, "127.0.0.1:99999"):
        with pytest.raises(UserError, match=f"--on ray: no Ray cluster answers at {silent}: "):
            refuse_silent(silent)
    refuse_silent("auto")


def test_sbatch_refusals_are_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.slurm.shutil.which", lambda name: f"/usr/bin/{name}")
    text = (
        "sbatch: error: invalid partition specified: gpu\nsbatch: error: Batch job submission failed: Invalid partition"
    )
    refused = subprocess.CompletedProcess(["sbatch"], 1, "", text)
    monkeypatch.setattr("tta_bench.engines.slurm._call", lambda words, text=None: refused)
    folder = JobFolder.create(store, Job("slurm", 1, Site().to_json(), (Ticket(make_spec(), 1.0),)))
    with pytest.raises(UserError) as error:
        Slurm(Options(submit={"partition": "gpu"})).submit(folder, 1)
    assert str(error.value) == (
        "sbatch refused the job: invalid partition specified: gpu; Batch job submission failed: Invalid partition "
        '(--slurm "partition=gpu")'
    )
