"""What a coordinator watches: workers, and the cells that none of them could finish."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tta_bench.engines.base import ENDED, UNKNOWN, Engine, State
from tta_bench.engines.job import JobFolder
from tta_bench.engines.journal import Life
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.listing import Watcher

SILENT = 300.0  # seconds after which a worker that the engine knows nothing about counts as dead
CANCELLED = "its job was cancelled with `tta-bench status --cancel`"


@dataclass(frozen=True)
class Lost:
    """A cell that no worker could finish."""

    spec: CellSpec
    reason: str

    def __str__(self) -> str:
        return f"{self.spec.label} on {self.spec.name}, seed {self.spec.seed}: lost: {self.reason}"


@dataclass
class Worker:
    """One worker of a watched job."""

    job: JobFolder
    index: int
    life: Life
    watcher: Watcher
    is_over: bool = False


@dataclass(frozen=True)
class Announced:
    """A record that a worker says it has written, or found."""

    slug: str
    is_new: bool
    at: float = field(default_factory=time.monotonic)


def running(store: Store, name: str, engine: Engine) -> list[JobFolder]:
    """The jobs of an engine in a folder that have not ended."""
    jobs = [job for job in JobFolder.all(store) if job.handle["engine"] == name]
    return [job for job in jobs if any(state.word != ENDED for state in engine.state(job))]


def is_dead(state: State, life: Life) -> bool:
    """Whether a worker has ended, or has been silent for so long that its engine may not know about it any more."""
    is_silent = bool(life.at) and time.time() - life.at > SILENT
    return state.word == ENDED or (state.word == UNKNOWN and is_silent)
