"""Workers as an array of Slurm jobs: `sbatch --array`, without accounting or another package.

The run folder must be on a disk that all nodes share. Workers use the Python of the supervisor, at the same path.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tta_bench.engines.base import ENDED, RUNNING, UNKNOWN, WAITING, Engine, State
from tta_bench.engines.job import JobFolder
from tta_bench.errors import UserError
from tta_bench.runs.options import RunOptions

EARLY = 120  # seconds before the time limit at which a worker takes no new cell; at most a quarter of the limit
TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")
OWN = frozenset({"array", "output", "error", "parsable", "wrap", "job-name", "chdir"})  # options that are set here
NO_JOB = frozenset({"help", "test-only", "usage", "version", "wait"})  # with these, sbatch submits nothing or blocks
ACTIVE = frozenset({"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
QUEUED = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
HELD = frozenset({"launch failed requeued held", "JobHoldMaxRequeue"})  # reasons: only a person can release such a job
NO_REASON = frozenset({"", "None", "NonZeroExitCode"})
PATIENCE = 60.0  # seconds for a command of Slurm


class Slurm(Engine):
    """Workers in a Slurm array."""

    accepts = frozenset({"slurm"})

    def __init__(self, options: RunOptions) -> None:
        super().__init__(options)
        if shutil.which("sbatch") is None:
            raise UserError("--on slurm: sbatch is not installed here: run this command on a login node of the cluster")
        self._given = cast("dict[str, str]", options.slurm or {})
        for name in self._given:
            if name in OWN:
                raise UserError(f"--slurm {name}=…: tta-bench sets this option itself")
            if name in NO_JOB:
                raise UserError(f"--slurm {name}: not possible here, sbatch would not submit the job and return")
        signal = self._given.get("signal", "B:")
        if "B" not in signal.partition(":")[0]:
            raise UserError(f"--slurm signal={signal}: write B:{signal}, the signal must reach the batch script")

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        signal = f"B:USR1@{early(self._given.get('time', ''))}"
        given = {"signal": signal, "open-mode": "append", **self._given}
        words = ["sbatch", "--parsable", f"--array=0-{workers - 1}", "--job-name=tta-bench"]
        words += [f"--output={job.log('%a')}"]
        words += [f"--{key}={value}" if value else f"--{key}" for key, value in given.items()]
        done = _call(words, script(job))
        if done.returncode:
            raise UserError(f"sbatch refused the job: {_reason(done)} ({_options(self._given)})")
        number = done.stdout.strip().partition(";")[0]
        if not number.isdecimal():
            raise UserError(f"sbatch answered '{number[:60]}', expected the number of a job ({_options(self._given)})")
        return {"id": number}

    def state(self, job: JobFolder) -> list[State]:
        handle = job.handle
        workers = int(handle["workers"])
        done = _call(["squeue", "--noheader", "--array", "--states=all", "--format=%K %T %r", f"--jobs={_number(job)}"])
        if done.returncode:
            # Slurm forgets a job some minutes after its end; a controller that does not answer says nothing about it.
            is_forgotten = "Invalid job id" in done.stderr
            return [State(ENDED if is_forgotten else UNKNOWN)] * workers
        found = dict.fromkeys(range(workers), State(ENDED))
        for line in done.stdout.splitlines():
            index, word, why = [*line.strip().split(" ", 2), "", ""][:3]
            if index.isdecimal():
                found[int(index)] = state_of(word, why)
        return [found[index] for index in range(workers)]

    def cancel(self, job: JobFolder) -> None:
        done = _call(["scancel", _number(job)])
        if done.returncode and "Invalid job id" not in done.stderr:
            raise UserError(f"scancel failed: {_reason(done)}")

    def withdraw(self, job: JobFolder) -> None:
        _call(["scancel", "--state=PENDING", _number(job)])


def _number(job: JobFolder) -> str:
    """The number of a Slurm job. The folder may be a stranger's, and scancel would take another text as an option."""
    number = str(job.handle["id"])
    if not number.isdecimal():
        raise UserError(f"{job.path}: damaged, expected the number of a Slurm job, got '{number[:60]}': delete it")
    return number


def state_of(word: str, reason: str) -> State:
    """A worker's state by Slurm's word and reason."""
    why = "" if reason in NO_REASON else reason
    if word in ACTIVE:
        return State(RUNNING)
    if word in QUEUED and why.replace("_", " ") not in HELD:  # versions differ in how they write it
        return State(WAITING, why)
    is_plain = word in QUEUED or word in ("COMPLETED", "FAILED")
    return State(ENDED, why if is_plain else word.lower().replace("_", " "))  # out of memory, node fail, …


def script(job: JobFolder) -> str:
    """The batch script: hands signals on to the worker and waits for it."""
    words = [sys.executable, "-m", "tta_bench", "work", str(job.store.folder.absolute()), job.name]
    return f"""#!/bin/bash
export GOMP_SPINCOUNT=${{GOMP_SPINCOUNT:-10000}}
export OMP_NUM_THREADS=${{OMP_NUM_THREADS:-${{SLURM_CPUS_PER_TASK:-${{SLURM_CPUS_ON_NODE:-1}}}}}}
{shlex.join(words)} "$SLURM_ARRAY_TASK_ID" &
worker=$!
trap 'kill -USR1 $worker' USR1
trap 'kill -TERM $worker' TERM
while kill -0 $worker 2>/dev/null; do wait $worker; status=$?; done
exit $status
"""


def early(limit: str) -> int:
    """How many seconds before a time limit workers are signalled; sbatch documents how limits are written."""
    found = TIME.fullmatch(limit)
    if found is None:  # unlimited, the partition's, or sbatch will refuse it
        return EARLY
    first, second, third = (int(found[name] or 0) for name in ("first", "second", "third"))
    if found["days"] is not None or found["third"] is not None:
        seconds = 86400 * int(found["days"] or 0) + 3600 * first + 60 * second + third
    else:
        seconds = 60 * first + second
    return max(1, min(EARLY, seconds // 4))


def _call(words: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, input=text, capture_output=True, text=True, timeout=PATIENCE)
    except FileNotFoundError:
        raise UserError(f"{words[0]} is not installed here: run this command on a login node of the cluster") from None
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"no answer within {PATIENCE:g} s")


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    lines = [re.sub(r"^\w+: (error: )?", "", line) for line in done.stderr.splitlines() if line.strip()]
    return "; ".join(lines) or f"exit status {done.returncode}"


def _options(given: Mapping[str, str]) -> str:
    text = ",".join(f"{key}={value}" if value else key for key, value in given.items())
    return f'--slurm "{text}"' if text else "no --slurm options"
