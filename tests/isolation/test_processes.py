"""The first worker of a command is a copy of its process that keeps nothing of it; later ones are new processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tta_bench.isolation.processes import can_fork

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from tta_bench.isolation.pool import Workers
from tta_bench.isolation.processes import copies

kept = open("kept", "w")
signal.signal(signal.SIGUSR1, lambda *call: None)

def main():
    with Workers(forks=True) as workers:
        workers.warm_up()
        first = workers._spare._process
        while os.getsid(first.pid) != first.pid:
            time.sleep(0.01)
        time.sleep(0.2)
        home = Path(f"/proc/{first.pid}")
        signals = [line for line in (home / "status").read_text().splitlines() if "SigCgt" in line][0]
        handled = int(signals.split()[1], 16) >> signal.SIGUSR1 - 1 & 1
        files = {os.readlink(file).partition(":")[0] for file in (home / "fd").iterdir()}
        files -= {os.readlink("/proc/self/fd/1")}
        print(type(first).__name__, "torch" in sys.modules, bool(handled), sorted(files)[:3])
        workers._spare = None
        print(first.wait())  # the connection is gone
        workers.warm_up()
        print(type(workers._spare._process).__name__)
"""
OF_COPY = """
copy, *ending = copies([main, lambda: sys.exit(3), lambda: time.sleep(600)], outlive=True)
print(copy.poll(), copy.wait(300), copy.poll(), copies([main], outlive=True))
print(ending[0].wait())
ending[1].kill()
print(ending[1].wait())
"""


def printed(script: str) -> list[str]:
    with open("log", "w") as log:  # noqa: PTH123
        done = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, stderr=log, text=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="copies are for Linux")
def test_the_first_worker_is_a_copy_that_keeps_nothing_open() -> None:
    first, status, later = printed(SCRIPT + "main()")
    assert first.startswith("Copy True False ['/dev/null', '/memfd")
    assert "kept" not in first
    assert (status, later) == ("0", "Popen")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="copies are for Linux")
def test_a_copy_may_copy_itself_once_and_ends_like_a_process() -> None:
    first, status, later, whole, ended, killed = printed(SCRIPT + OF_COPY)
    assert first.startswith("Copy True False ['/dev/null', '/memfd")
    assert (status, later) == ("0", "Popen")
    assert whole == "None 0 0 []", "the first process has torch now"
    assert (ended, killed) == ("3", "-9")


def test_a_process_with_torch_is_not_copied() -> None:
    assert not can_fork(), "these tests have imported it; its threads would be lost"
