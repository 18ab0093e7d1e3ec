"""What a command requests: a spec for each cell. Refuses unknown names before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from tta_bench import registry, settings
from tta_bench.checked.options import part
from tta_bench.errors import UserError, about, did_you_mean
from tta_bench.models.names import findable
from tta_bench.records.asked import Asked
from tta_bench.records.live import BACKWARD, COUNTS, Live
from tta_bench.records.spec import CellSpec
from tta_bench.runs import clock, tuned
from tta_bench.runs.options import RunOptions
from tta_bench.streams.scenarios import scenario_of
from tta_bench.suites.suite import CHOICES, Suite, load

BY_TASK = "by-task"  # a suite's model if each task has its own source model


Requested = tuple[Suite, list[CellSpec], dict[str, str]]  # the last: by label a sentence on how settings were chosen


def requested(options: RunOptions) -> Requested:
    """The suite, all cells that are requested, and how settings were chosen."""
    suite, options, chosen = resolve(options)
    return suite, specs(suite, options), chosen


def resolve(options: RunOptions) -> tuple[Suite, RunOptions, dict[str, str]]:
    """The suite, the options with the settings of `--settings`, and by label a sentence on how those were chosen.

    `--set` goes before `--settings`.
    """
    suite = load(options.suite) if isinstance(options.suite, str) else options.suite
    if options.settings is None:
        return suite, options, {}
    labels = tuple(options.methods or suite.methods)
    found = {label: entry for label, entry in tuned.read(Path(options.settings)).items() if label in labels}
    if not found:
        raise UserError(f"--settings {options.settings}: has no settings for {', '.join(labels)}")
    given = options.overrides
    overrides = {**given, **{label: {**entry.settings, **given.get(label, {})} for label, entry in found.items()}}
    changed = replace(options, set=overrides, settings=None)
    chosen = {label: entry for label, entry in found.items() if overrides[label] == entry.settings}
    rows = {label: row_of(label, suite, changed).label for label in chosen}
    tasks = options.tasks or suite.tasks
    return suite, changed, {rows[label]: entry.sentence(rows[label], suite, tasks) for label, entry in chosen.items()}


def in_scenario(suite: Suite, options: RunOptions) -> RunOptions:
    """The options with the suite's scenario, unless they have one; `--remember` becomes a part of it."""
    if not options.scenario and suite.scenario:
        with about(f"suite '{suite.name}'"):
            options = replace(options, scenario=scenario_of(suite.scenario))
    if options.remember is None:
        return options
    with about("--remember"):
        return replace(
            options, scenario=scenario_of(f"{options.protocol.name}+remember:{options.remember}"), remember=None
        )


def specs(suite: Suite, options: RunOptions) -> list[CellSpec]:
    """All requested cells, stream by stream: a stream's methods follow each other, so its images are read once."""
    return [spec for point in points(suite, options) for spec in _specs(*point)]


def points(suite: Suite, options: RunOptions) -> list[tuple[Suite, RunOptions]]:
    """The suite and the options at each value of its sweep; a value of the command line is the only one."""
    refuse_misnamed(suite, options)
    chosen, options = options.scenario, in_scenario(suite, options)
    fixed = {"batch_size": options.protocol.batch_size, **dict.fromkeys(CHOICES, chosen)}
    for axis, values in (suite.sweep or {}).items():
        if (fixed.get(axis) or getattr(options, axis, None)) is None:
            return [_at(suite, options, axis, value) for value in values]
    return [(suite, options)]


def _at(suite: Suite, options: RunOptions, axis: str, value: float) -> tuple[Suite, RunOptions]:
    given: dict[str, Any] = {axis: int(value) if value == int(value) else value}
    if axis in CHOICES:
        return suite, replace(options, scenario=scenario_of(options.protocol.name, replaced=f"{axis}:{value:.10g}"))
    if axis == "severity":
        return replace(suite, data={**suite.data, **given}), options
    return suite, replace(options, **given)


def _specs(suite: Suite, options: RunOptions) -> list[CellSpec]:
    rows = [row_of(label, suite, options) for label in options.methods or suite.methods]
    live = lives(suite, options, rows)
    return [
        spec_of(suite, options, row, tasks, seed, live[row.label])
        for tasks in options.protocol.groups(options.tasks or suite.tasks)
        for seed in options.seeds or suite.seeds
        for row in rows
    ]


def lives(suite: Suite, options: RunOptions, rows: Sequence[Row]) -> dict[str, Live | None]:
    """The live stream of each row by its label; None if the stream waits and the row adapts to every batch."""
    shared, costs = Live(), dict[str, float]()
    if options.stream_speed:
        backward = BACKWARD if options.backward_cost is None else options.backward_cost
        shared = Live(options.stream_speed, options.busy or "stale", backward=backward)
        if options.clock not in (None, COUNTS):
            name, costs = clock.measured(Path(str(options.clock)), suite, options, rows)
            shared = replace(shared, clock=name)
    return {row.label: _live(row, shared, costs.get(row.label)) for row in rows}


def _live(row: Row, shared: Live, cost: float | None) -> Live | None:
    if not shared.speed and row.adapt_every == 1:
        return None
    try:
        return replace(shared, cost=cost, adapt_every=row.adapt_every)
    except ValueError as error:
        raise UserError(f"method '{row.label}': {error}") from error


@dataclass(frozen=True)
class Row:
    """A row of the tables: a method with its settings, under a label. Clocks and checks know rows, not streams."""

    label: str
    method: str
    settings: settings.Settings
    adapt_every: int = 1


def row_of(label: str, suite: Suite, options: RunOptions) -> Row:
    """A row of this run, with the suite's settings, overridden by the run's."""
    asked, given = options.overrides.get(label, {}), _settings(label, suite, options)
    method = given.pop("method", label)  # a suite may have several rows of one method, each under its own label
    every = given.pop("adapt-every", 1)
    # A row that departs from the suite's settings says so wherever it is shown.
    shown = ", ".join(f"{key}={_short(value)}" for key, value in asked.items() if key != "method")
    held = settings.storable(f"method '{label}'", given)
    return Row(f"{label} ({shown})" if shown else label, method, held, every)


def _short(value: Any) -> str:
    """A setting's value as a label has it; of a path its name, since results are known by the content of files."""
    if isinstance(value, float):
        return f"{value:g}"
    return PurePath(value).name or value if isinstance(value, str) else str(value)


def spec_of(
    suite: Suite, options: RunOptions, row: Row, tasks: tuple[str, ...], seed: int, live: Live | None = None
) -> CellSpec:
    """The request for one row on one stream."""
    return CellSpec(
        **part(Asked, options),
        suite=suite.name,
        suite_version=suite.version,
        data=suite.data,
        tasks=tasks,
        scenario=options.protocol.name,
        scenario_settings=options.protocol.settings,
        seed=seed,
        label=row.label,
        method=row.method,
        settings=row.settings,
        model=findable(options.model or suite.model),
        batch_size=options.protocol.batch_size or options.batch_size or suite.batch_size,
        live=live,
        paper=suite.paper,
    )


def refuse_misnamed(suite: Suite, options: RunOptions) -> None:
    """Refuse unknown methods, tasks and settings."""
    for task in options.tasks:
        if task not in suite.tasks:
            raise UserError(f"suite '{suite.name}' has no task '{task}'{did_you_mean(task, suite.tasks)}")
    labels = tuple(options.methods or suite.methods)
    for label in labels:
        refuse_unknown(label, suite, options)
    refuse_unused_settings(options, labels)
    for label in labels:
        registry.installed().require(_settings(label, suite, options).get("method", label))


def refuse_unknown(label: str, suite: Suite, options: RunOptions) -> None:
    """Refuse a row that is neither in the suite nor an installed method, and names no method."""
    known = {*suite.methods, *suite.other_methods, *registry.installed().names()}
    if label not in known and "method" not in options.overrides.get(label, {}):
        raise UserError(f"unknown method '{label}'{did_you_mean(label, known)}")


def refuse_unused_settings(options: RunOptions, labels: Sequence[str]) -> None:
    """Refuse a setting for a method that is not in this run."""
    for name in options.overrides:
        if name not in labels:
            raise UserError(f"--set {name}.…: method '{name}' is not in this run ({', '.join(labels)})")


def _settings(label: str, suite: Suite, options: RunOptions) -> settings.Settings:
    """The settings of a row: the suite's, overridden by the run's."""
    return {**suite.settings(label), **options.overrides.get(label, {})}
