"""Starts a run: finds mistakes, creates the folder, runs what is left. Imports torch only if something is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.errors import require
from tta_bench.records import output
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.choices import Choices
from tta_bench.runs.listing import Watcher, finished, run_specs
from tta_bench.runs.site import Site
from tta_bench.runs.spec import row_of, specs
from tta_bench.runs.workers import Workers
from tta_bench.suites.suite import Suite

if TYPE_CHECKING:
    from tta_bench.runs.bind import Binder


@dataclass(frozen=True)
class Launch:
    """A run that is ready to start: all checks have passed."""

    requests: list[CellSpec]
    site: Site
    store: Store
    place: Binder | None  # holds what the checks have loaded; None if nothing is left to run
    set_aside: Path | None  # where the old folder is now, for a fresh start
    damaged: list[Path]  # where files that failed their digests are now

    def run(self, watcher: Watcher) -> list[Record]:
        """Run what is left; returns the records of all requests, in their order."""
        return run_specs(self.requests, self.site, self.store, watcher, self.place)


def launch(
    suite: Suite,
    choices: Choices,
    site: Site,
    folder: Path,
    *,
    command: list[str],
    fresh: bool = False,
    check: Callable[[list[CellSpec], Site], Binder | None] | None = None,
) -> Launch:
    """Check a run and create its folder; with `fresh`, an old folder is moved aside first.

    `check` refuses wrong data, weights or settings; by default this process does so, and keeps what it has loaded.
    """
    requests = specs(suite, choices)
    place = None
    damaged: list[Path] = []
    if fresh:
        output.refuse_other_files(folder)
        Store(folder).refuse_running()
    else:
        output.refuse_unfit(folder, suite.name)
        damaged = Store(folder).set_damaged_aside()
    if fresh or len(finished(requests, site, Store(folder))) < len(requests):
        place = (check or _checked)(requests, site)  # before an old folder is moved, or a new one made
    old = Store(folder).set_aside() if fresh else None
    store = Store.create(folder, suite.name)
    labels = list(dict.fromkeys(spec.label for spec in requests))
    store.note_command(command, choices.tasks or suite.tasks, labels, shown_as(choices, suite))
    return Launch(requests, site, store, place, old, damaged)


def shown_as(choices: Choices, suite: Suite) -> dict[str, str]:
    """How settings were chosen, by the label that tables show."""
    return {row_of(label, suite, choices).label: said for label, said in choices.chosen.items()}


def _checked(requests: list[CellSpec], site: Site) -> Binder:
    """A binder whose site has everything that is requested."""
    require("torch")
    workers = Workers()
    if not site.in_process:
        workers.warm_up()  # it imports torch while this process does
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.execute import refuse_unfit

    place = Binder(site, workers)
    try:
        refuse_unfit(requests, place)
    except BaseException:
        workers.close()
        raise
    return place
