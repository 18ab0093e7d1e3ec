"""Starts what `tta-bench run` and `tta_bench.run` ask for: finds mistakes, creates the folder, runs what is left.

Cells run in this process or on an engine (fleet.py). Imports torch only if something is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.engines.fleet import Fleet
from tta_bench.engines.job import JobFolder
from tta_bench.engines.supervise import Lost
from tta_bench.errors import require
from tta_bench.isolation.pool import Workers
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.options import RUNS, RunOptions
from tta_bench.runs.resume import finished
from tta_bench.runs.site import Site
from tta_bench.runs.spec import Requested, requested
from tta_bench.runs.watcher import Watcher
from tta_bench.suites.suite import Suite

if TYPE_CHECKING:
    from tta_bench.runs.bind import Binder


@dataclass(frozen=True)
class Run:
    """A run whose checks have passed and whose folder exists."""

    suite: Suite
    requests: list[CellSpec]
    site: Site
    store: Store
    found: dict[str, Record]  # finished before, by the digest of their spec
    fleet: Fleet | None  # None: this process runs the cells, or nothing is left to run
    binder: Binder | None  # holds what this process loaded for its checks
    set_aside: Path | None  # where the old folder is now, for a fresh start
    damaged: list[Path]  # where files that failed their digests are now

    def finish(self, watcher: Watcher) -> tuple[list[Record], list[Lost]]:
        """Run what is left; returns the records of all requests in their order, and the cells that were lost."""
        if self.fleet:
            return self.fleet.run(self.requests, self.site, self.store, watcher)
        return run_here(self.requests, self.found, self.binder, self.store, watcher), []

    def detach(self) -> JobFolder | None:
        """Let the engine start and leave it alone; None if nothing is left to run."""
        return self.fleet.detach(self.site, self.store) if self.fleet else None


def run_here(
    requests: list[CellSpec], known: Mapping[str, Record], binder: Binder | None, store: Store, watcher: Watcher
) -> list[Record]:
    """Run the cells that are not known, in this process; returns the records of all requests in their order.

    Without a binder everything must be known.
    """
    found = dict(known)
    for spec in requests:
        if spec.digest in found:
            watcher.on_record(found[spec.digest].labelled(spec.label), is_new=False)
    left = [spec for spec in requests if spec.digest not in found]
    if left and binder:
        from tta_bench.runs.execute import run_left
        from tta_bench.runs.source_check import warn

        try:
            warn(left, binder, store, watcher)
            found |= run_left(left, binder, store, watcher)
        finally:
            binder.workers.close()
    return [found[spec.digest].labelled(spec.label) for spec in requests]


@contextmanager
def start(
    options: RunOptions, command: list[str], wanted: Requested | None = None, *, forks: bool = False
) -> Iterator[Run]:
    """Check a run, create its folder and note `command` in it. `wanted` replaces what the options request.

    With `forks` this process holds nothing but tta-bench, so that its first workers may be copies of it.
    """
    on_engine = options.on, options.gpus, options.slurm, options.gpus_per_cell, options.detach, (options.jobs or 1) > 1
    with (
        closing(Fleet(options, forks=forks)) if any(on_engine) else nullcontext() as fleet,
        Workers(forks=forks) as workers,
    ):
        yield _start(options, command, wanted or requested(options), fleet, workers)


def _start(options: RunOptions, command: list[str], wanted: Requested, fleet: Fleet | None, workers: Workers) -> Run:
    (suite, requests, chosen), site = wanted, options.site
    store = Store(Path(options.out or RUNS / suite.name))
    found: dict[str, Record] = {}
    damaged: list[Path] = []
    if options.fresh:
        store.refuse_other_files()
        store.refuse_running()
    else:
        store.refuse_unfit(suite.name)
        damaged = store.set_damaged_aside()
        found = finished(requests, site, store)
    binder = None
    if len(found) == len(requests):
        fleet = None
    else:  # checked before an old folder is moved, or a new one made
        require("torch")
        if fleet:
            fleet.check(requests, site, store.folder)
        else:
            if not site.in_process:
                workers.warm_up()  # before this process reads images and labels
            from tta_bench.runs.bind import Binder

            binder = Binder(site, workers)
            binder.refuse_unfit(requests)
    old = store.set_aside() if options.fresh else None
    Store.create(store.folder, suite.name)
    labels = list(dict.fromkeys(spec.label for spec in requests))
    store.note_command(command, options.tasks or suite.tasks, labels, chosen, options.to_json())
    return Run(suite, requests, site, store, found, fleet, binder, old, damaged)
