"""The interface of an engine: start workers, say which live, end them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

from tta_bench.engines.job import JobFolder
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site

WAITING, RUNNING, ENDED, UNKNOWN = "waiting", "running", "ended", "unknown"


class State(NamedTuple):
    """What a worker does, and why, in the words of its scheduler."""

    word: str
    why: str = ""

    @property
    def death(self) -> str:
        """How a worker has ended that did not say so itself."""
        return f"died ({self.why})" if self.why else "died"


class Engine(ABC):
    """Starts workers, each with `tta-bench work FOLDER JOB INDEX`.

    An engine keeps nothing in memory that it needs later: another process may ask for the state of a job.
    """

    accepts: frozenset[str] = frozenset()  # the options of RunOptions that it uses besides `jobs`, and "address"
    starts_workers = True
    is_here = False  # whether workers run on this machine, with its devices
    forks = False  # whether this process holds nothing but tta-bench, so that workers may be copies of it

    def __init__(self, options: RunOptions) -> None:
        self.options = options

    @cached_property
    def jobs(self) -> int:
        """How many workers a job gets."""
        return self.options.jobs or 1

    def warm_up(self, job: JobFolder, workers: int, site: Site) -> None:
        """Prepare workers for a job that will follow, or refuse to: it is called before anything is checked."""

    @abstractmethod
    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        """Start workers with the indices 0, 1, …; returns plain data by which they can be found again."""

    @abstractmethod
    def state(self, job: JobFolder) -> list[State]:
        """The state of each worker."""

    @abstractmethod
    def cancel(self, job: JobFolder) -> None:
        """End a job's workers; they drop their current cell."""

    def withdraw(self, job: JobFolder) -> None:
        """Nothing is left to do: take workers back that have not started yet."""

    def finish(self) -> None:
        """All cells are done: wait for workers that are about to end, if that is quick."""

    def close(self) -> None:
        """Release what `warm_up` started and `submit` did not use."""
