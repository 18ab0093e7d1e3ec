"""Each engine's options, what it refuses, and what it tells its workers."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.denied import denied
from tests.support.engines import make_job, make_spec
from tta_bench.checked.readers import sbatch
from tta_bench.cli.main import main
from tta_bench.engines import engine_class, engines
from tta_bench.engines.base import Engine, State
from tta_bench.engines.fleet import Fleet
from tta_bench.engines.job import JobFolder
from tta_bench.engines.local import Local
from tta_bench.engines.ray_ import _why, refuse_silent, sharing
from tta_bench.engines.slurm import Slurm, early
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "run", "s")


def test_built_in_engines_come_through_entry_points() -> None:
    assert {"local", "manual", "slurm", "ray"} <= set(engines().names())
    assert issubclass(engine_class("local"), Engine)
    with pytest.raises(UserError, match="unknown engine 'slrm'; did you mean 'slurm'"):
        Fleet(RunOptions(on="slrm"))


def test_ray_workers_say_when_their_device_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.ray_.cores", lambda: 8)
    shared = {"TTA_BENCH_SHARED_DEVICE": "1"}
    assert [sharing(gpus) for gpus in (0, 0.5, 1, 2)] == [shared, shared, {}, {}]
    monkeypatch.setattr("tta_bench.engines.ray_.cores", lambda: 1)
    assert sharing(0) == {}


def test_local_workers_share_cores_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.local.cores", lambda: 8)
    monkeypatch.setenv("TTA_BENCH_SIMULATED_GPUS", "4")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    two = Local(RunOptions(jobs=2))
    assert two.environment() == {
        "OMP_NUM_THREADS": "4",
        "TTA_BENCH_JOBS": "2",
        "TTA_BENCH_SHARED_DEVICE": "1",
    }
    gpus = Local(RunOptions(gpus=(1, 3)))
    assert gpus.jobs == 2
    assert gpus.environment(3) == {
        "OMP_NUM_THREADS": "4",
        "TTA_BENCH_JOBS": "2",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "3",
    }
    crowded = Local(RunOptions(gpus=(1, 3), jobs=4))
    assert crowded.environment(1)["CUDA_VISIBLE_DEVICES"] == "1"
    assert crowded.environment(1)["TTA_BENCH_SHARED_DEVICE"] == "1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RunOptions(on="local", gpus=(99,)), "--gpus 99: this machine has no GPU 99 .GPUs: "),
        (RunOptions(on="local", slurm={"time": "1"}), "--slurm does not apply to --on local: use --on slurm"),
        (RunOptions(on="local=x"), "=ADDRESS does not apply to --on local: use --on ray"),
        (RunOptions(on="slurm"), "--on slurm: sbatch is not installed here: run this command on a login node"),
        (RunOptions(on="slurm", gpus=(0,)), "--gpus does not apply to --on slurm: use --on local"),
    ],
)
def test_options_that_cannot_work_are_refused(
    options: RunOptions, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match=message):
        Fleet(options)


def test_a_class_of_this_process_cannot_run_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from tta_bench.registry import installed

    monkeypatch.setitem(installed().given, "mine", object)
    with pytest.raises(UserError, match="method 'mine' is a class of this process, which workers cannot import"):
        Fleet(RunOptions(on="local")).check([make_spec("mine")], Site(), Path("run"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--jobs", "0"], "--jobs: expected a whole number of at least 1, got '0'"),
        (["run", "--gpus", "0,0"], "--gpus: expected different GPUs, got '0,0'"),
        (["run", "--gpus", "99"], "--gpus 99: this machine has no GPU 99"),
        (["run", "--slurm", "partition=gpu"], "--slurm does not apply to --on local: use --on slurm"),
        (["run", "--on", "slurm", "--slurm", "array=1-9"], "--slurm array=…: tta-bench sets this option itself"),
        (["run", "--slurm", "=gpu"], "expected long options of sbatch, each once, as in partition=gpu"),
        (["run", "--slurm", "p=gpu"], "expected long options of sbatch, each once, as in partition=gpu"),
        (["run", "--slurm", "time=1,time=2"], "as in partition=gpu,time=4:00:00, got 'time=2'"),
        (["run", "--slurm", "time="], "as in partition=gpu,time=4:00:00, got 'time='"),
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


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("partition=gpu,long,time=4:00:00", {"partition": "gpu,long", "time": "4:00:00"}),
        ("nodelist=n1,n[3-4],exclusive", {"nodelist": "n1,n[3-4]", "exclusive": ""}),
        ("mail-type=END,FAIL,gres=gpu:1,shard:2", {"mail-type": "END,FAIL", "gres": "gpu:1,shard:2"}),
        ("export=ALL,DATA=/d", {"export": "ALL,DATA=/d"}),
        ("exclusive,requeue", {"exclusive": "", "requeue": ""}),
    ],
)
def test_values_of_slurm_options_may_be_lists(text: str, options: dict[str, str]) -> None:
    assert sbatch(text) == options


def test_more_workers_than_a_job_of_another_scheduler_has_end_well(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Job of Kubernetes starts as many pods as its manifest says, and fails if one of them does."""
    manual = JobFolder.create(store, make_job("manual"))
    assert main(["work", str(store.folder), manual.name, "7"]) == 0
    assert capsys.readouterr().err == f"job {manual.name} has workers 0 to 0, got 7: nothing to do\n"
    local = JobFolder.create(store, make_job("local"))
    assert main(["work", str(store.folder), local.name, "7"]) == 2


def test_a_worker_that_may_not_write_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store.create(tmp_path / "run", "s")
    folder = JobFolder.create(store, make_job("manual"))
    with denied(folder.path, to=0o555):
        assert main(["work", str(store.folder), folder.name, "0"]) == 2
    shown = capsys.readouterr().err
    assert shown == f"tta-bench: error: {folder.life_file(0)} cannot be written (Permission denied)\n"


def test_ray_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--on ray: Ray is not installed: pip install 'tta-bench\[ray\]'"):
        Fleet(RunOptions(on="ray"))


@pytest.mark.parametrize(
    ("error", "address", "message"),
    [
        (RuntimeError("Version mismatch: the cluster was started with:\n Ray: 2.1"), "h:1", "another version of Ray"),
        (ConnectionError("ray client connection timeout"), "h:1", "no Ray cluster answers at h:1: ray client"),
        (ConnectionError("Could not find any running Ray instance"), "", "no Ray cluster runs here: start one with"),
        (
            ConnectionError("Could not find any running Ray instance"),
            "auto",
            "no Ray cluster runs here: start one with",
        ),
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
    folder = JobFolder.create(store, make_job("slurm"))
    with pytest.raises(UserError) as error:
        Slurm(RunOptions(slurm={"partition": "gpu"})).submit(folder, 1)
    assert str(error.value) == (
        "sbatch refused the job: invalid partition specified: gpu; Batch job submission failed: Invalid partition "
        '(--slurm "partition=gpu")'
    )


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("", 120),
        ("UNLIMITED", 120),
        ("4:00:00", 120),
        ("1-0", 120),
        ("1-0:30", 120),
        ("1", 15),
        ("2:00", 30),
        ("0:2", 1),
    ],
)
def test_the_early_signal_leaves_most_of_a_short_time_limit(limit: str, seconds: int) -> None:
    assert early(limit) == seconds


SQUEUE = """\
0 RUNNING None
1 PENDING Resources
2 PENDING launch failed requeued held
3 PENDING JobHeldUser
4 OUT_OF_MEMORY OutOfMemory
5 FAILED NonZeroExitCode
6 COMPLETED None
7 PENDING launch_failed_requeued_held
"""


def test_slurm_says_why_a_worker_waits_or_has_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.slurm.shutil.which", lambda name: f"/usr/bin/{name}")
    answer = subprocess.CompletedProcess(["squeue"], 0, SQUEUE, "")
    monkeypatch.setattr("tta_bench.engines.slurm._call", lambda words, text=None: answer)
    content = make_job("slurm", 9)
    folder = JobFolder.create(store, content)
    folder.keep_handle(content, {"id": "7"})
    assert Slurm(RunOptions()).state(folder) == [
        State("running"),
        State("waiting", "Resources"),
        State("ended", "launch failed requeued held"),  # only a person can release it
        State("waiting", "JobHeldUser"),  # a person will
        State("ended", "out of memory"),
        State("ended"),
        State("ended"),
        State("ended", "launch_failed_requeued_held"),
        State("ended"),  # squeue has forgotten it
    ]


@pytest.mark.parametrize("action", ["state", "cancel", "withdraw"])
def test_a_strangers_folder_passes_no_option_to_slurm(
    action: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tta_bench.engines.slurm.shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("tta_bench.engines.slurm._call", lambda words, text=None: pytest.fail(f"called {words}"))
    content = make_job("slurm")
    folder = JobFolder.create(store, content)
    folder.keep_handle(content, {"id": "--user=me"})
    with pytest.raises(UserError, match="expected the number of a Slurm job, got '--user=me'"):
        getattr(Slurm(RunOptions()), action)(folder)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"wait": ""}, "--slurm wait: not possible here"),
        ({"test-only": ""}, "--slurm test-only: not possible here"),
        ({"signal": "USR1@60"}, "--slurm signal=USR1@60: write B:USR1@60"),
    ],
)
def test_options_of_sbatch_that_cannot_work(given: dict[str, str], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.slurm.shutil.which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(UserError) as error:
        Slurm(RunOptions(slurm=given))
    assert str(error.value).startswith(line)


def test_an_answer_of_sbatch_without_a_number_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.engines.slurm.shutil.which", lambda name: f"/usr/bin/{name}")
    answer = subprocess.CompletedProcess(["sbatch"], 0, "Usage: sbatch [OPTIONS]", "")
    monkeypatch.setattr("tta_bench.engines.slurm._call", lambda words, text=None: answer)
    folder = JobFolder.create(store, make_job("slurm"))
    with pytest.raises(UserError, match="expected the number of a job"):
        Slurm(RunOptions()).submit(folder, 1)
