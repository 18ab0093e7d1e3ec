"""The commands as Python calls.

results = tta_bench.run(methods=["source", "tent"], suite="digits-c-5", tasks=["fog"])
results.table()
results.compare("source", "tent")
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench import registry
from tta_bench.engines import Options
from tta_bench.engines.fleet import Fleet
from tta_bench.errors import UserError
from tta_bench.records.live import Live
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report import differences
from tta_bench.report.current import recency
from tta_bench.report.display import Display
from tta_bench.report.rows import Comparison, compare
from tta_bench.report.runs import Runs
from tta_bench.report.tables import accuracy_table, time_table
from tta_bench.runs.choices import Choices
from tta_bench.runs.launch import launch
from tta_bench.runs.listing import Watcher
from tta_bench.runs.site import Site
from tta_bench.runs.site import data_root as default_root
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
    live: Live | None = None,
    data_root: str | Path | None = None,
    cache: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    fresh: bool = False,
    on: str | None = None,
    jobs: int | None = None,
    gpus: Sequence[int] = (),
    slurm: Mapping[str, str] | None = None,
    gpus_per_cell: float | None = None,
    retries: int = 2,
    watcher: Watcher | None = None,
) -> Results:
    """Compare methods on a suite, as `tta-bench run` does; finished cells in the folder are not run again.

    `methods` is a list of names, or maps row labels to a dictionary of settings (which may name its `method`) or to a
    Method class, which needs no package. The default is the suite's methods. `out` is the run folder, by default the
    command line's. `live=Live(1)` is a stream that does not wait, as `--stream-speed 1`. `on` is an engine with its
    options, as in docs/clusters.md; `Results.lost` names cells that no worker could finish. Bad arguments raise
    `tta_bench.errors.UserError`.
    """
    chosen = suites.load(suite) if isinstance(suite, str) else suite
    labels, overrides = _rows(methods)
    choices = Choices(
        methods=labels,
        tasks=tuple(tasks),
        model=model,
        seeds=_whole_numbers(seeds),
        scenario=scenario_of(scenario) if isinstance(scenario, str) else scenario,
        limit=limit,
        batch_size=batch_size,
        amp=amp,
        compile=compile,
        live=live,
        overrides=overrides,
    )
    site = Site(default_root(data_root), Path(cache) if cache else None, workers, device)
    folder = Path(out) if out else RUNS / chosen.name
    options = Options(jobs, tuple(gpus), "", gpus_per_cell, slurm or {})
    if on is None and options in (Options(), Options(jobs=1)):
        ready = launch(chosen, choices, site, folder, command=_command(), fresh=fresh)
        return Results(ready.store, ready.run(watcher or Watcher()))
    with Fleet(on or "local", options, folder, retries) as fleet:
        ready = launch(chosen, choices, site, folder, command=_command(), fresh=fresh, check=fleet.check)
        records, lost = fleet.run(ready, watcher or Watcher())
        return Results(ready.store, records, [str(cell) for cell in lost])


def _whole_numbers(seeds: Iterable[int]) -> tuple[int, ...]:
    """Seeds as plain numbers, also from an array."""
    try:
        return tuple(map(operator.index, seeds))
    except TypeError as error:
        raise UserError(f"seeds: expected whole numbers, as in seeds=[0, 1], got {seeds!r}") from error


class Results:
    """The records of one call, and tables made from them."""

    def __init__(self, store: Store, records: Iterable[Record], lost: Sequence[str] = ()) -> None:
        self.folder = store.folder
        self.records = list(records)
        self.lost = list(lost)  # a line for each cell that no worker of an engine could finish

    @cached_property
    def runs(self) -> Runs:
        """The run folder with its predictions, including records of earlier calls."""
        return Runs([self.folder])

    @cached_property
    def comparison(self) -> Comparison:
        """These records as rows; if Source is not among them, an earlier call's Source on the same streams is added."""
        stored = {record.cell.key: record for record in self.runs.records}
        own = [replace(stored[record.cell.key], label=record.label) for record in self.records]
        return compare([*_matching_source(own, self.runs.records), *own])

    def table(self) -> Display:
        """Accuracy of each method on each task."""
        return Display(accuracy_table(self.comparison))

    def times(self) -> Display:
        """Time, passes and memory of each method."""
        return Display(time_table(self.comparison))

    def compare(self, a: str, b: str) -> Display:
        """How much better `b` is than `a` on each task, with confidence intervals."""
        found = differences.difference(self.comparison, a, b, self.runs)
        return Display(differences.table(found, self.comparison.suite), differences.sentence(found))

    def frame(self) -> pd.DataFrame:
        """One row per cell and task, as in `tta_bench.frame`."""
        from tta_bench.report.frames import frame

        own = {record.cell.slug for record in self.records}
        found = frame(self.folder)
        mine: pd.DataFrame = found[found["cell"].isin(own)].reset_index(drop=True)
        return mine

    def __repr__(self) -> str:
        failed = sum(record.status != "done" for record in self.records)
        counts = [f", {count} {word}" for count, word in ((failed, "failed"), (len(self.lost), "lost")) if count]
        return f"<Results of {len(self.records)} cells in {self.folder}{''.join(counts)}>"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _rows(methods: Methods) -> tuple[tuple[str, ...], dict[str, dict[str, Any]]]:
    """Labels and their settings; registers classes in this process under their labels."""
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


def _matching_source(own: Sequence[Record], stored: Sequence[Record]) -> list[Record]:
    """The newest Source records on the same streams, if `own` has none."""
    if any(record.cell.method == "source" for record in own):
        return []
    streams = {_match_key(record) for record in own}
    found = [r for r in stored if r.cell.method == "source" and r.status == "done" and _match_key(r) in streams]
    newest = {_match_key(record): record for record in sorted(found, key=recency)}
    return [record for record in found if record is newest[_match_key(record)]]


def _match_key(record: Record) -> tuple[object, ...]:
    return record.cell.conditions, record.cell.harness


def _command() -> list[str]:
    """The command that the run folder notes: the running script."""
    return ["python", Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "-"]
