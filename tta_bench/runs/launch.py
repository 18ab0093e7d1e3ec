"""Starts a run: finds mistakes, creates the folder, runs what is left. Imports torch only if something is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.errors import require
from tta_bench.isolation.pool import Workers
from tta_bench.records import output
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.options import RUNS, RunOptions
from tta_bench.runs.resume import finished, run_specs
from tta_bench.runs.site import Site
from tta_bench.runs.spec import row_of, specs
from tta_bench.runs.tuned import with_tuned
from tta_bench.runs.watcher import Watcher
from tta_bench.suites.suite import Suite, load

if TYPE_CHECKING:
    from tta_bench.runs.bind import Binder


@dataclass(frozen=True)
class Launch:
    """A run that is ready to start: all checks have passed."""

    suite: Suite
    requests: list[CellSpec]
    site: Site
    store: Store
    binder: Binder | None  # holds what the checks have loaded; None if nothing is left to run
    set_aside: Path | None  # where the old folder is now, for a fresh start
    damaged: list[Path]  # where files that failed their digests are now

    def run(self, watcher: Watcher) -> list[Record]:
        """Run what is left; returns the records of all requests, in their order."""
        return run_specs(self.requests, self.site, self.store, watcher, self.binder)


def resolve(options: RunOptions) -> tuple[Suite, RunOptions, dict[str, str]]:
    """The suite, the options with tuned settings, and by label a sentence on how those were chosen."""
    suite = load(options.suite) if isinstance(options.suite, str) else options.suite
    return suite, *with_tuned(options, suite)


def launch(
    options: RunOptions,
    command: list[str],
    check: Callable[[list[CellSpec], Site, Path], Binder | None] | None = None,
) -> Launch:
    """Check a run and create its folder; for a fresh start, an old folder is moved aside first.

    `check` refuses wrong data, weights or settings; by default this process does so, and keeps what it has loaded.
    """
    given = options.to_json()
    suite, options, chosen = resolve(options)
    requests, site = specs(suite, options), options.site
    folder = Path(options.out or RUNS / suite.name)
    binder = None
    damaged: list[Path] = []
    if options.fresh:
        output.refuse_other_files(folder)
        Store(folder).refuse_running()
    else:
        output.refuse_unfit(folder, suite.name)
        damaged = Store(folder).set_damaged_aside()
    if options.fresh or len(finished(requests, site, Store(folder))) < len(requests):
        binder = (check or _checked)(requests, site, folder)  # before an old folder is moved, or a new one made
    old = Store(folder).set_aside() if options.fresh else None
    store = Store.create(folder, suite.name)
    labels = list(dict.fromkeys(spec.label for spec in requests))
    said = {row_of(label, suite, options).label: sentence for label, sentence in chosen.items()}
    store.note_command(command, options.tasks or suite.tasks, labels, said, given)
    return Launch(suite, requests, site, store, binder, old, damaged)


def _checked(requests: list[CellSpec], site: Site, folder: Path) -> Binder:
    """A binder whose site has everything that is requested."""
    require("torch")
    workers = Workers()
    if not site.in_process:
        workers.warm_up()  # it imports torch while this process does
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.execute import refuse_unfit

    binder = Binder(site, workers)
    try:
        refuse_unfit(requests, binder)
    except BaseException:
        workers.close()
        raise
    return binder
