"""Work in a background process: its result, its death, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import trees
from tests.support.checkout import ROOT
from tta_bench.system import in_background, without_collector


def who() -> int:
    return os.getpid()


def die(parent: int) -> str:
    if os.getpid() != parent:
        os._exit(1)
    return "done here"


def blocked() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def wait_for(file: Path) -> None:
    file.write_text(str(os.getpid()))
    time.sleep(600)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_work_runs_in_another_process() -> None:
    with in_background(who) as result:
        assert result() not in (0, os.getpid())


def test_work_runs_here_if_the_other_process_died() -> None:
    with in_background(die, os.getpid()) as result:
        assert result() == "done here"


def test_unneeded_work_is_terminated(tmp_path: Path) -> None:
    note = tmp_path / "process"

    def interrupted() -> None:
        with in_background(wait_for, note):
            while not note.exists() or not note.read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not is_alive(int(note.read_text()))


def test_ctrl_c_does_not_reach_the_other_process() -> None:
    """The first process of a program: multiprocessing then also starts a helper, which must change nothing."""
    program = (
        "from tta_bench.system import in_background\n"
        "from tests.system.test_processes import blocked\n"
        "with in_background(blocked) as result: print(result())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "True", done.stderr


def test_a_delayed_interrupt_comes_afterwards() -> None:
    """In a separate program: a test runner may have threads, and any thread may receive the signal."""
    program = (
        "import os, signal, time\n"
        "from tta_bench.system import interrupts_held\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` leaves it ignored\n"
        "try:\n"
        "    with interrupts_held():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        print('within')\n"
        "    time.sleep(10)\n"
        "    print('after')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["within", "interrupted"], done.stderr


def test_the_collector_is_left_as_it_was() -> None:
    import gc

    with without_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_check_finds_the_same_with_a_process_for_data(tmp_path: Path) -> None:
    """As a user starts it: torch is not imported yet, so another process lists the data."""
    trees.imagenet_c(tmp_path, ("fog", "snow"))
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: mine\nabout: a test\nmodel: none\nbatch_size: 2\ntasks: [fog, frost, snow]\n"
        "data: {kind: imagenet-c, severity: 5, allow_partial: true}\nmethods: {source: {}}\n"
    )
    words = ["check", "--suite", suite, "--data-root", tmp_path, "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "tta_bench.cli.main", *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    lines = done.stdout.splitlines()
    assert [line[:5] for line in lines if " task " in line] == ["ok   ", "ERROR", "ok   "]
    assert "ok    task fog: 3 classes, 6 images, 3 opened" in done.stdout
    assert "frost/5 is missing" in " ".join(done.stdout.split())
    assert lines[-1] == "2 of 8 checks failed."
    assert done.stderr == ""
