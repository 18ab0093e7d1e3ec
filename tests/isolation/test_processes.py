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

kept = open("kept", "w")
signal.signal(signal.SIGUSR1, lambda *call: None)
with Workers(forks=True) as workers:
    workers.warm_up()
    first = workers._spare._process
    while os.getsid(first.pid) != first.pid:
        time.sleep(0.01)
    time.sleep(0.2)
    home = Path(f"/proc/{first.pid}")
    handled = int([line for line in (home / "status").read_text().splitlines() if "SigCgt" in line][0].split()[1], 16)
    files = {os.readlink(file).partition(":")[0] for file in (home / "fd").iterdir()} - {os.readlink("/proc/self/fd/1")}
    print(type(first).__name__, "torch" in sys.modules, bool(handled >> signal.SIGUSR1 - 1 & 1), sorted(files)[:3])
    workers._spare = None
    print(first.wait())  # the connection is gone
    workers.warm_up()
    print(type(workers._spare._process).__name__)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="copies are for Linux")
def test_the_first_worker_is_a_copy_that_keeps_nothing_open() -> None:
    with open("log", "w") as log:  # noqa: PTH123
        done = subprocess.run([sys.executable, "-c", SCRIPT], check=True, stdout=subprocess.PIPE, stderr=log, text=True)
    first, status, later = done.stdout.splitlines()
    assert first.startswith("_Forked True False ['/dev/null', '/memfd")
    assert "kept" not in first
    assert (status, later) == ("0", "Popen")


def test_a_process_with_torch_is_not_copied() -> None:
    assert not can_fork(), "these tests have imported it; its threads would be lost"
