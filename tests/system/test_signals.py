"""Ctrl-C is never lost, and a reader that leaves the pipe is no failure."""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tests.support.records import keep, make_record
from tta_bench.records.store import Store
from tta_bench.system import interruptible


class Swallows:
    """A part of the import system that ignores exceptions, as Python does in the callbacks of module locks."""

    def __init__(self, number: int) -> None:
        self.number = number

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "no_such_module":
            with suppress(KeyboardInterrupt):
                os.kill(os.getpid(), self.number)
                time.sleep(0.1)
        return None


@interruptible()
def import_and_wait() -> None:
    with suppress(ModuleNotFoundError):
        importlib.import_module("no_such_module")
    time.sleep(5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_an_import_swallows_is_raised_again(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(sys, "meta_path", [Swallows(number), *sys.meta_path])
    before = signal.signal(number, signal.default_int_handler)  # a job in the background starts with Ctrl-C ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            import_and_wait()
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["argparse", "tta_bench.errors", "tta_bench.system", "tta_bench.cli.options"])
def test_a_signal_while_the_command_line_is_imported_is_one_line(module: str, number: int) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "tta_bench", "list", "suites"]
    # A job that a shell puts into the background ignores Ctrl-C, and so would the command that it starts.
    heed = f"import os, signal; signal.signal({int(number)}, signal.SIG_DFL); os.execv({sys.executable!r}, {words!r})"
    command = [sys.executable, "-c", heed]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line.split()[-1] == module for line in process.stderr)
        process.send_signal(number)
        said = [line for line in process.stderr if not line.startswith("import time:")]
    assert (said, process.returncode in (130, 128 + number)) == (["tta-bench: interrupted\n"], True)


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import tta_bench; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "tta_bench"}


def test_a_long_import_is_not_waited_for(tmp_path: Path) -> None:
    """Nor interrupted, since torch's C++ code aborts at an exception: the process exits."""
    lines = ["import os, signal, time", "os.kill(os.getpid(), signal.SIGTERM)", "time.sleep(300)"]
    (tmp_path / "slow_package.py").write_text("\n".join(lines))
    code = "from tta_bench.system import interruptible\nwith interruptible():\n    import slow_package"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tta-bench: interrupted\n")


def test_a_signal_elsewhere_counts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        os.kill(os.getpid(), signal.SIGTERM)


def test_ctrl_c_stays_ignored_where_the_shell_ignores_it() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("words", [["report"], ["compare", "--a", "source", "--b", "sar"], ["suite", "schema"]])
def test_a_closed_pipe_is_no_failure(tmp_path: Path, words: list[str]) -> None:
    store = Store.create(tmp_path / "run", "s")
    for method in ("source", "sar"):
        keep(store, make_record(method))
    command = [sys.executable, "-m", "tta_bench.cli.main", *words]
    if words[0] != "suite":
        command.insert(4, str(store.folder))
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["suite", "schema"], ["list", "suites"]])
def test_output_on_a_full_disk_is_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tta_bench", *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    said = "tta-bench: error: standard output cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_a_process_without_standard_output_works() -> None:
    command = f"exec {shlex.quote(sys.executable)} -m tta_bench suite schema >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
