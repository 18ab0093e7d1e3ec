"""Commands from end to end on simulated GPUs, in their worker processes: the same predictions as on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import SMALL
from tta_bench.records.record import Record
from tta_bench.records.store import Store

QUICK = ("--tasks", "contrast", "--limit", "64")


def tta(*words: object, simulated: str = "2") -> subprocess.CompletedProcess[str]:
    """One command in a process of its own; with simulated GPUs, unless there are none."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **({"TTA_BENCH_SIMULATED_GPUS": simulated} if simulated else {})}
    command = [sys.executable, "-m", "tta_bench", *map(str, words)]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


def records(folder: str) -> dict[tuple[str, str], Record]:
    return {(record.label, record.cell.name): record for record in Store(Path(folder)).by_key().values()}


def on_both(*words: str, device: tuple[str, ...] = ("--device", "cuda:1")) -> list[Record]:
    """Run the small suite on the CPU and on a GPU; all predictions must be the same. Returns the GPU's records."""
    Path("small.yaml").write_text(SMALL)
    run = ("run", "--suite", "small.yaml", *QUICK, *words)
    for out, where, simulated in (("cpu", ("--device", "cpu"), ""), ("gpu", device, "2")):
        done = tta(*run, *where, "--out", out, simulated=simulated)
        assert done.returncode == 0, done.stdout + done.stderr
    found = records("gpu")
    for key, record in records("cpu").items():
        assert found[key].predictions == record.predictions, key
        assert found[key].measured.adapted_batches == record.measured.adapted_batches, key
    return list(found.values())


@pytest.mark.slow
def test_a_run_on_the_second_gpu_is_the_cpus() -> None:
    found = on_both()
    assert {record.cell.found.device for record in found} == {"simulated"}
    for record in found:
        assert record.measured.remarks == []  # no files, variables or generators that a method is blamed for
        assert record.measured.memory["measure"] == "allocated on the GPU"
        assert record.measured.environment["device_name"] == "simulated GPU"
        assert record.measured.environment["gpu"]["tf32"] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("--stream-speed", "2"),
        ("--scenario", "continual"),
        ("--in-process",),
        ("--deterministic",),
    ],
    ids=" ".join,
)
def test_other_runs_are_the_cpus(words: tuple[str, ...]) -> None:
    on_both(*words)


@pytest.mark.slow
def test_two_gpus_share_a_run() -> None:
    Path("small.yaml").write_text(SMALL)
    on_both(device=("--gpus", "0,1"))


@pytest.mark.slow
def test_other_commands_work_on_a_gpu() -> None:
    Path("small.yaml").write_text(SMALL)
    what, where = ("--suite", "small.yaml"), ("--device", "cuda:1")
    for words in (
        ("run", *what, *QUICK, *where, "--amp", "bf16", "--out", "amp"),
        ("run", *what, *QUICK, *where, "--tf32", "--out", "tf32"),
        ("check", *what, *where),
        ("inspect", *what, "--method", "tent", "--tasks", "contrast", "--batches", 1, *where, "--out", "inspected"),
        (
            "timing",
            "record",
            "--methods",
            "tent",
            "--batch-size",
            4,
            "--batches",
            1,
            "--budget",
            "1s",
            *where,
            "--out",
            "t.json",
        ),
        ("verify", "amp", "--rerun", 1),
    ):
        done = tta(*words)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
    assert records("tf32").keys() == records("amp").keys()
    assert all(record.measured.environment["gpu"]["tf32"] for record in records("tf32").values())


def test_a_gpu_that_was_asked_for_is_not_replaced_by_the_cpu() -> None:
    Path("small.yaml").write_text(SMALL)
    done = tta("run", "--suite", "small.yaml", *QUICK, "--gpus", "0", "--out", "run", simulated="")
    assert (done.returncode, Path("run").exists()) == (2, False)
    assert "--gpus 0: this machine has no GPU 0 (GPUs: none)" in done.stderr
