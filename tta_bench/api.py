"""What the commands do, as Python calls.

results = tta_bench.run(methods=["source", "tent"], suite="digits-c-5", tasks=["fog"])
results.table()
results.compare("source", "tent")
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench import registry
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report import differences
from tta_bench.report.rows import Comparison, compare
from tta_bench.report.runs import Runs
from tta_bench.report.shown import Shown
from tta_bench.report.tables import accuracy_table, time_table
from tta_bench.runs.choices import Choices
from tta_bench.runs.launch import launch
from tta_bench.runs.listing import Watcher
from tta_bench.runs.site import Site
from tta_bench.streams.scenarios import Scenario, scenario_of
from tta_bench.suites import suite as suites
from tta_bench.suites.suite import Suite

if TYPE_CHECKING:
    import pandas as pd

    from tta_bench.method import Method

RUNS = Path("results/runs")
Methods = Sequence[str] | Mapping[str, "Mapping[str, Any] | type[Method]"]


def run(
    methods: Methods = (),
    suite: str | Suite = suites.DEFAULT,
    *,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    model: str | None = None,
    scenario: str | Scenario = "normal",
    limit: int | None = None,
    batch_size: int | None = None,
    amp: str | None = None,
    compile: bool = False,
    data_root: str | Path | None = None,
    cache: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    fresh: bool = False,
    watcher: Watcher | None = None,
) -> Results:
    """Compare methods on a suite, as `tta-bench run` does; what is finished in the folder is not run again.

    `methods` are names, or rows by their label: a dictionary of settings, which may name its `method`, or a class of
    one's own, which needs no package. Nothing given means the suite's own. `out` is the run's folder, by default that
    of the command line. A mistake in the arguments is a `tta_bench.errors.UserError`.
    """
    chosen = suites.load(suite) if isinstance(suite, str) else suite
    labels, overrides = _rows(methods)
    choices = Choices(
        methods=labels,
        tasks=tuple(tasks),
        model=model,
        seeds=tuple(seeds),
        scenario=scenario_of(scenario) if isinstance(scenario, str) else scenario,
        limit=limit,
        batch_size=batch_size,
        amp=amp,
        compile=compile,
        overrides=overrides,
    )
    root = data_root or os.environ.get("TTA_BENCH_DATA") or None
    site = Site(Path(root) if root else None, Path(cache) if cache else None, workers, device)
    folder = Path(out) if out else RUNS / chosen.name
    ready = launch(chosen, choices, site, folder, command=_command(), fresh=fresh)
    return Results(ready.store, ready.run(watcher or Watcher()))


class Results:
    """The records of one call, and the tables that they make."""

    def __init__(self, store: Store, records: Iterable[Record]) -> None:
        self.folder = store.folder
        self.records = list(records)

    @cached_property
    def runs(self) -> Runs:
        """The run's folder with its predictions; holds the records of earlier calls, too."""
        return Runs([self.folder])

    @cached_property
    def comparison(self) -> Comparison:
        """These records as rows, and Source of an earlier call on the same streams, so that costs have their unit."""
        there = {record.cell.key: record for record in self.runs.records}
        own = [replace(there[record.cell.key], label=record.label) for record in self.records]
        return compare([*_source_beside(own, self.runs.records), *own])

    def table(self) -> Shown:
        """Accuracy of each method on each task."""
        return Shown(accuracy_table(self.comparison))

    def times(self) -> Shown:
        """Time, passes and memory of each method."""
        return Shown(time_table(self.comparison))

    def compare(self, a: str, b: str) -> Shown:
        """How much better `b` is than `a`, task by task, and how sure that is."""
        found = differences.difference(self.comparison, a, b, self.runs)
        return Shown(differences.table(found, self.comparison.suite), differences.sentence(found))

    def frame(self) -> pd.DataFrame:
        """One row per cell and task, as `tta_bench.frame` gives them."""
        from tta_bench.report.frames import frame

        own = {record.cell.slug for record in self.records}
        found = frame(self.folder)
        mine: pd.DataFrame = found[found["cell"].isin(own)].reset_index(drop=True)
        return mine

    def __repr__(self) -> str:
        failed = sum(record.status != "done" for record in self.records)
        return f"<Results of {len(self.records)} cells in {self.folder}" + (f", {failed} failed>" if failed else ">")

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _rows(methods: Methods) -> tuple[tuple[str, ...], dict[str, dict[str, Any]]]:
    """Labels and their settings; a class becomes known to this process under its label."""
    if isinstance(methods, str):
        raise UserError(f"methods: expected a list of names, as in ['{methods}'], got '{methods}'")
    if not isinstance(methods, Mapping):
        return tuple(methods), {}
    overrides = {}
    for label, given in methods.items():
        if isinstance(given, type):
            registry.add(label, given)
        elif isinstance(given, Mapping):
            overrides[label] = dict(given)
        else:
            raise UserError(f"methods: '{label}': expected settings or a Method class, got {given!r}")
    return tuple(methods), {label: given for label, given in overrides.items() if given}


def _source_beside(own: Sequence[Record], there: Sequence[Record]) -> list[Record]:
    """Source's records of an earlier call on the very same streams, if these have none of their own."""
    if any(record.cell.method == "source" for record in own):
        return []
    streams = {_same(record) for record in own}
    found = [r for r in there if r.cell.method == "source" and r.status == "done" and _same(r) in streams]
    newest = {_same(record): record for record in sorted(found, key=lambda record: record.finished_at)}
    return [record for record in found if record is newest[_same(record)]]


def _same(record: Record) -> tuple[object, ...]:
    return record.cell.conditions, record.cell.harness


def _command() -> list[str]:
    """What the folder keeps as the command that filled it."""
    return ["python", Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "-"]
