"""The commands as Python calls.

results = tta_bench.run(methods=["source", "tent"], suite="digits-c-5", tasks=["fog"])
results.table()
results.compare("source", "tent")
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from tta_bench import registry
from tta_bench.engines.start import start
from tta_bench.errors import UserError, did_you_mean
from tta_bench.published import results as published
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report import differences
from tta_bench.report.current import recency
from tta_bench.report.display import Display
from tta_bench.report.rows import Comparison, compare
from tta_bench.report.runs import Runs
from tta_bench.report.tables import accuracy_table, time_table
from tta_bench.runs.options import KNOWN, NAMES, Methods, RunOptions, errors_name_keywords, scenario_settings
from tta_bench.runs.watcher import Watcher

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")


@dataclass(frozen=True)
class Call(RunOptions):
    """The keywords of `run`: the options of the command, and who watches."""

    watcher: Watcher | None = field(default=None, kw_only=True)


def _takes(options: Callable[P, RunOptions]) -> Callable[[Callable[..., Results]], Callable[P, Results]]:
    """Give a function the signature of a class: for help(), notebooks and type checkers."""

    def decorate(function: Callable[..., Results]) -> Callable[P, Results]:
        own = inspect.signature(options).parameters
        kind = inspect.Parameter.KEYWORD_ONLY
        settings = {name: inspect.Parameter(name, kind, default=None) for name in scenario_settings()}
        ordered = {**{name: own[name] for name in NAMES}, **settings, **own}
        signature = inspect.Signature([*ordered.values()], return_annotation="Results")
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


@_takes(Call)
def run(*args: Any, **given: Any) -> Results:
    """Compare methods on a suite, as `tta-bench run` does; finished cells in the folder are not run again.

    The keywords are the command's options, with the same defaults; text is read as the command line reads it, so that
    `time_limit="2h"` is `--time-limit 2h`. `methods` is a list of names, or maps row labels to a dictionary of settings
    (which may name its `method`) or to a Method class, which needs no package. `Results.lost` names cells that no
    worker could finish. `beside="published"` puts the published rows on the same streams (`tta-bench results`) into
    tables. Bad arguments raise `tta_bench.errors.UserError`.
    """
    given |= dict(zip(("methods", "suite"), args, strict=False))
    watcher = given.pop("watcher", None) or Watcher()
    with errors_name_keywords():
        for name in given:
            if name not in KNOWN:
                raise UserError(f"run has no option '{name}'{did_you_mean(name, KNOWN)}")
        labels, rows = _rows(given.get("methods"))
        options = RunOptions.of({**given, "methods": labels})
        for label, settings in options.overrides.items():
            rows[label] = {**rows.get(label, {}), **settings}
        if options.beside:
            published.expect(options.suite)
        with start(replace(options, set=rows), _command()) as started:
            if options.detach:
                started.detach()
                return Results(started.store, started.found.values())
            records, lost = started.finish(watcher)
            return Results(started.store, records, [str(cell) for cell in lost], beside=bool(options.beside))


class Results:
    """The records of one call, and tables made from them."""

    def __init__(
        self, store: Store, records: Iterable[Record], lost: Sequence[str] = (), *, beside: bool = False
    ) -> None:
        self.folder = store.folder
        self.records = list(records)
        self.beside = beside  # tables show published rows, too
        self.lost = list(lost)  # a line for each cell that no worker of an engine could finish

    @cached_property
    def runs(self) -> Runs:
        """The run folder with its predictions, including records of earlier calls."""
        return Runs([self.folder])

    @cached_property
    def comparison(self) -> Comparison:
        """These records as rows; if Source is not among them, an earlier call's Source on the same streams is added."""
        stored = {record.cell.key: record for record in self.runs.records}
        own = [stored[record.cell.key].labelled(record.label) for record in self.records]
        return compare([*_matching_source(own, self.runs.records), *own])

    @cached_property
    def shown(self) -> Comparison:
        """The rows of tables: these, and published ones if they were asked for."""
        if not self.beside:
            return self.comparison
        return compare([*published.beside(self.records), *self.comparison.records])

    def table(self) -> Display:
        """Accuracy of each method on each task."""
        return Display(accuracy_table(self.shown))

    def times(self) -> Display:
        """Time, passes and memory of each method."""
        return Display(time_table(self.shown))

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


def _rows(methods: Methods | None) -> tuple[Sequence[str], dict[str, dict[str, Any]]]:
    """Labels and their settings; registers classes in this process under their labels."""
    if methods is None or methods == ():
        return (), {}
    if not methods:
        raise UserError(f"methods: {methods!r} is empty: name some, or leave it out for the suite's own")
    if not isinstance(methods, Mapping):
        return methods, {}
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
    if any(record.cell.spec.method == "source" for record in own):
        return []
    streams = {_match_key(record) for record in own}
    found = [r for r in stored if r.cell.spec.method == "source" and r.status == "done" and _match_key(r) in streams]
    newest = {_match_key(record): record for record in sorted(found, key=recency)}
    return [record for record in found if record is newest[_match_key(record)]]


def _match_key(record: Record) -> tuple[object, ...]:
    return record.cell.conditions, record.cell.found.harness


def _command() -> list[str]:
    """The command that the run folder notes: the running script."""
    return ["python", Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "-"]
