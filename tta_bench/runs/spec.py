"""What a command requests: a spec for each cell. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from tta_bench import settings
from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.models.names import findable
from tta_bench.records.live import Live
from tta_bench.records.spec import CellSpec
from tta_bench.runs.choices import Choices, refuse_misnamed, settings_of
from tta_bench.streams.scenarios import protocol
from tta_bench.suites.suite import Suite

BY_TASK = "by-task"  # a suite's model if each task has its own source model


def read_spec(content: object, where: str = "request") -> CellSpec:
    """Read what `CellSpec.to_json` wrote; UserError with the place of anything wrong."""
    spec = validate.read(CellSpec, content, where)
    protocol(spec)
    return spec


def specs(suite: Suite, choices: Choices) -> list[CellSpec]:
    """All requested cells, stream by stream: a stream's methods follow each other, so its images are read once."""
    return [spec for point in points(suite, choices) for spec in _specs(*point)]


def points(suite: Suite, choices: Choices) -> list[tuple[Suite, Choices]]:
    """The suite and the choices at each value of its sweep; a value of the command line is the only one."""
    refuse_misnamed(suite, choices)
    size = choices.scenario.batch_size or choices.batch_size
    given = {"batch_size": size, "limit": choices.limit, "stream_speed": choices.live or choices.waits or None}
    for axis, values in (suite.sweep or {}).items():
        if given.get(axis) is None:
            return [_at(suite, choices, axis, value) for value in values]
    return [(suite, choices)]


def _at(suite: Suite, choices: Choices, axis: str, value: float) -> tuple[Suite, Choices]:
    if axis == "stream_speed":
        return suite, replace(choices, live=Live(value) if value else None)
    if axis == "severity":
        return replace(suite, data={**suite.data, "severity": int(value)}), choices
    if axis == "batch_size":
        return suite, replace(choices, batch_size=int(value))
    return suite, replace(choices, limit=int(value))


def _specs(suite: Suite, choices: Choices) -> list[CellSpec]:
    rows = [row_of(label, suite, choices) for label in choices.methods or tuple(suite.methods)]
    return [
        spec_of(suite, choices, row, tasks, seed)
        for tasks in choices.scenario.groups(choices.tasks or suite.tasks)
        for seed in choices.seeds or suite.seeds
        for row in rows
    ]


@dataclass(frozen=True)
class Row:
    """A row of the tables: a method with its settings, under a label."""

    label: str
    method: str
    settings: settings.Settings
    adapt_every: int = 1


def row_of(label: str, suite: Suite, choices: Choices) -> Row:
    """A row of this run, with the suite's settings, overridden by the command line's."""
    asked, given = choices.overrides.get(label, {}), settings_of(label, suite, choices)
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


def live_of(row: Row, choices: Choices) -> Live | None:
    """The live stream of a row; None if the stream waits and the row adapts to every batch."""
    if choices.live is None and row.adapt_every == 1:
        return None
    if choices.costs is not None and row.label not in choices.costs:
        raise UserError(f"--clock: the timing record has no method '{row.label}' (it has {', '.join(choices.costs)})")
    cost = None if choices.costs is None else choices.costs[row.label]
    try:
        return replace(choices.live or Live(), cost=cost, adapt_every=row.adapt_every)
    except ValueError as error:
        raise UserError(f"method '{row.label}': {error}") from error


def spec_of(suite: Suite, choices: Choices, row: Row, tasks: tuple[str, ...], seed: int) -> CellSpec:
    """The request for one row on one stream."""
    return CellSpec(
        suite=suite.name,
        suite_version=suite.version,
        data=suite.data,
        tasks=tasks,
        scenario=choices.scenario.name,
        scenario_settings=choices.scenario.settings,
        seed=seed,
        label=row.label,
        method=row.method,
        settings=row.settings,
        model=findable(choices.model or suite.model),
        batch_size=choices.scenario.batch_size or choices.batch_size or suite.batch_size,
        limit=choices.limit,
        amp=choices.amp,
        compile=choices.compile,
        live=live_of(row, choices),
        paper=suite.paper,
    )
