"""Starts what `tta-bench run` and `tta_bench.run` ask for: checks, then cells in this process or on an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from tta_bench.engines.fleet import Fleet
from tta_bench.engines.job import JobFolder
from tta_bench.engines.supervise import Lost
from tta_bench.records.record import Record
from tta_bench.runs.launch import Launch, launch
from tta_bench.runs.options import RunOptions
from tta_bench.runs.watcher import Watcher


@dataclass(frozen=True)
class Run:
    """A run whose checks have passed, and whose folder is there."""

    ready: Launch
    fleet: Fleet | None  # None: this process runs the cells

    def finish(self, watcher: Watcher) -> tuple[list[Record], list[Lost]]:
        """Run what is left; returns the records of all requests in their order, and the cells that were lost."""
        return self.fleet.run(self.ready, watcher) if self.fleet else (self.ready.run(watcher), [])

    def detach(self) -> JobFolder | None:
        """Let the engine start and leave it alone; None if nothing is left to run."""
        return self.fleet.detach(self.ready) if self.fleet else None


@contextmanager
def start(options: RunOptions, command: list[str], *, forks: bool = False) -> Iterator[Run]:
    """Check a run and create its folder; `command` is noted there. `forks`: see `launch`."""
    with _fleet(options) or nullcontext() as fleet:
        yield Run(launch(options, command, fleet.check if fleet else None, forks=forks), fleet)


def _fleet(options: RunOptions) -> Fleet | None:
    """The engine that the options choose; None for this process."""
    asked = (options.on, options.gpus, options.slurm, options.gpus_per_cell, options.detach, (options.jobs or 1) > 1)
    return Fleet(options) if any(asked) else None
