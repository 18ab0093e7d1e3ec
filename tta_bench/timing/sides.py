"""Runs steps in this process, or in a child process with another revision."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from tta_bench.errors import UserError
from tta_bench.timing import steps
from tta_bench.timing.measure import Step
from tta_bench.timing.steps import Steps, Workload


class Side(Protocol):
    """Runs the steps of methods on one workload."""

    def step(self, label: str) -> Step: ...

    def twin(self, label: str) -> Step:
        """Another instance of the same method: what it differs by is noise."""
        ...

    def counts(self, label: str) -> dict[str, int]: ...


class SideFailed(UserError):
    """A method fails in one of the revisions."""

    def __init__(self, side: str, reason: str) -> None:
        super().__init__(f"{side}: {reason}")
        self.is_unknown = reason.startswith("unknown method")


class LocalSide:
    """Runs steps in this process. Methods are built once, when first used."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._built: dict[str, Steps] = {}

    def step(self, label: str) -> Steps:
        if label not in self._built:
            self._built[label] = self.twin(label)
        return self._built[label]

    def twin(self, label: str) -> Steps:
        return Steps(self.workload, label)

    def counts(self, label: str) -> dict[str, int]:
        return self.step(label).counts


class ChildSide:
    """Runs steps in a child process that imports another revision: its folder comes first on the path."""

    def __init__(self, workload: Path, packages: Path, environment: dict[str, str], name: str) -> None:
        self.name = name
        self._start_twin = partial(ChildSide, workload, packages, environment, f"{name}, second process")
        self._twin: ChildSide | None = None
        others = [str(Path(part).absolute()) for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
        environment = {**environment, "PYTHONPATH": os.pathsep.join([str(packages), *others])}
        self._log = workload.with_name(f"{name}.log").open("w+")
        # Not as a script: Python would put this file's folder first on the child's path.
        start = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
        self._process = subprocess.Popen(
            [sys.executable, "-c", start, steps.__file__, str(workload)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
            cwd=workload.parent,  # `-c` puts this folder on the path, so it must hold no package
        )

    def step(self, label: str) -> Step:
        return partial(self._ask, label)

    def twin(self, label: str) -> Step:
        # In its own process, as the other revision: two processes may differ in their memory layout.
        self._twin = self._twin or self._start_twin()
        return self._twin.step(label)

    def counts(self, label: str) -> dict[str, int]:
        found: dict[str, int] = self._ask(label, None)
        return found

    def close(self) -> None:
        if self._twin is not None:
            self._twin.close()
        self._process.kill()
        self._process.communicate()  # also closes the pipes
        self._log.close()

    def _ask(self, label: str, number: int | None) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([label, number]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._log.seek(0)
            last = self._log.read().strip().splitlines()[-1:] or ["no message"]
            if last[0].startswith(("ImportError", "ModuleNotFoundError")) and "tta_bench" in last[0]:
                raise UserError(f"{self.name} cannot be timed: it is older than `tta-bench timing` ({last[0]})")
            raise UserError(f"{self.name} cannot run '{label}': {last[0]}")
        found = json.loads(line)
        if isinstance(found, dict) and "error" in found:
            raise SideFailed(self.name, found["error"])
        return found


def save(workload: Workload, path: Path) -> None:
    """Save a workload for child processes."""
    torch.save({**asdict(workload), "class_mask": workload.class_mask}, path)
