"""Ends runs at random moments and at every write, and goes on: nothing finished is lost, and results are identical."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.against_plain_loop import children_seconds, family
from benchmarks.torture.scene import CELLS, Scene, leftovers, predictions
from tta_bench.engines.alive import Life

SOON = 3.0  # seconds of CPU time: an import is not interrupted at once, and a run says what it has
PART = ("--tasks", "contrast", "--seeds", "0")  # two cells have every kind of write


def random_kills(scene: Scene, count: int, seed: int = 0, *, real: int = 10) -> dict[str, Any]:
    """Kill -9 at random moments; every `real`-th time the whole command with its worker, else a forked run."""
    chance, out = random.Random(seed), scene.home / "killed"
    lost = wrong = finished = orphans = 0
    for number in range(count):
        before = set(predictions(out))
        if len(before) == CELLS:
            finished += 1
            shutil.rmtree(out)
            before = set()
        if number % real == 0:
            process = scene.start(out, in_process=False)
            time.sleep(chance.uniform(1, 15))
            pid = process.pid
            os.kill(pid, signal.SIGKILL)
            process.wait()
            time.sleep(0.2)
            orphans += _is_running(pid)
        else:
            _fork_and(scene, out, lambda: time.sleep(chance.uniform(0, 1.5)))
        lost += len(before - set(predictions(out)))
        wrong += len(scene.wrong(out))
    ended = scene.start(out).wait()
    return {
        "kills": count,
        "cells lost": lost,
        "damaged or other results": wrong + len(scene.wrong(out)),
        "runs finished": finished + (ended == 0 and len(predictions(out)) == CELLS),
        "temporary files left": len(leftovers(out)),
        "workers that outlived their run": orphans,
    }


def engine_kills(scene: Scene, count: int, seed: int = 0) -> dict[str, Any]:
    """Kill -9 a worker of `run --jobs 2`, the process in which its method adapts, or the supervisor; then go on."""
    chance, out = random.Random(seed), scene.home / "engine"
    lost = wrong = failed = 0
    for number in range(count):
        before = set(predictions(out))
        if len(before) == CELLS:
            shutil.rmtree(out)
            before = set()
        process = scene.start(out, in_process=False, more=("--jobs", "2", "--retries", "99"))
        _kill_one(process, out, number % 3, chance.uniform(0, 3))
        if number % 3 == 2:  # the supervisor; its workers go on
            process.wait()
        else:
            failed += process.wait() != 0
        lost += len(before - set(predictions(out)))
        wrong += len(scene.wrong(out))
    ended = scene.start(out, in_process=False, more=("--jobs", "2")).wait()
    time.sleep(1)
    workers = [life.pid for life in _lives(out)]
    return {
        "kills": count,
        "cells lost": lost,
        "damaged or other results": wrong + len(scene.wrong(out)),
        "runs that failed for a killed worker": failed,
        "unfinished at the end": int(ended != 0 or len(predictions(out)) != CELLS),
        "workers that outlived their run": sum(Path(f"/proc/{pid}").exists() for pid in workers),
    }


def _lives(out: Path) -> list[Life]:
    return [Life.read(path) for path in out.glob("jobs/*/[0-9]*.json")]


def _kill_one(process: subprocess.Popen[str], out: Path, which: int, wait: float) -> None:
    """Kill a worker, its child, or the command, a while after the first cell has started."""
    while process.poll() is None:
        running = [
            life.pid for life in _lives(out) if life.spec and not life.exit and Path(f"/proc/{life.pid}").exists()
        ]
        if running:
            time.sleep(wait)
            with suppress(OSError, ProcessLookupError):
                children = Path(f"/proc/{running[0]}/task/{running[0]}/children").read_text().split()
                victims = [running[0]] if which == 0 else map(int, children) if which == 1 else [process.pid]
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.05)


def every_write(scene: Scene) -> dict[str, Any]:
    """End a run at its first, second, third … write, each in a new folder, and go on."""
    steps = wrong = unfinished = 0
    while True:
        out = scene.home / f"write-{steps}"
        is_complete = _fork_and(scene, out, None, stop_at=steps, words=PART)
        if is_complete:
            break
        steps += 1
        unfinished += not _fork_and(scene, out, None, words=PART)
        wrong += len(scene.wrong(out))
        shutil.rmtree(out, ignore_errors=True)
    return {"writes": steps, "damaged or other results": wrong, "folders that could not go on": unfinished}


def signals(scene: Scene, count: int, seed: int = 0) -> dict[str, Any]:
    """Ctrl-C, SIGTERM and SIGHUP at random moments to the command: it ends soon, in one line, and can go on.

    Soon is measured in CPU time: wall time is that of whatever else the machine does.
    """
    chance, out = random.Random(seed), scene.home / "signalled"
    tracebacks = slow = wrong = ignored = 0
    problems: list[str] = []
    for number in range(count):
        if len(predictions(out)) == CELLS:
            shutil.rmtree(out)
        before = children_seconds()
        process = scene.start(out, in_process=number % 2 == 0, pipe=True)
        time.sleep(chance.uniform(0.05, 12))
        if process.poll() is not None:
            ignored += 1
            continue
        before += sum(map(_seconds, family(process.pid)))
        process.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[number % 3])
        _, shown = process.communicate()
        slow += children_seconds() - before > SOON
        if "Traceback" in shown:
            tracebacks += 1
            problems.append(shown[-1000:])
        ignored += process.returncode == 0 and number % 3 == 0
        wrong += len(scene.wrong(out))
    return {
        "signals": count,
        "tracebacks": tracebacks,
        f"took more than {SOON:.0f} s of CPU time": slow,
        "came after the end or were ignored": ignored,
        "damaged or other results": wrong,
        "problems": problems[:5],
    }


def _seconds(pid: int) -> float:
    """CPU time of a process that runs, with the children that it has waited for; 0 if it has just ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _fork_and(scene: Scene, out: Path, wait: Any, stop_at: int | None = None, words: tuple[str, ...] = ()) -> bool:
    """Fork a run in this warm process; kill it after `wait`, or at a write, or let it end. True if it ended well."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            _run_forked(scene, out, stop_at, words)
        os._exit(1)
    if wait is not None:
        wait()
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _run_forked(scene: Scene, out: Path, stop_at: int | None, words: tuple[str, ...]) -> None:
    from tta_bench.cli.main import main

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1), os.dup2(null, 2)
    if stop_at is not None:
        _stop_at_write(stop_at, out)
    os._exit(main([*scene.words(out), *words, "--in-process"]))


def _stop_at_write(number: int, out: Path) -> None:
    """Kill this process at a call that changes the run folder."""
    calls = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal calls
        changes = event in ("os.rename", "os.link", "os.remove", "os.mkdir", "os.chmod", "os.truncate")
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (changes or writes) and str(args[0]).startswith(str(out)):
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1

    sys.addaudithook(watch)


def _is_running(parent: int) -> bool:
    """Whether a process of this parent's session is still there."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[3]) == parent and fields[0] != "Z":
                return True
    return False
