"""A command's choices beyond the suite, and the mistakes in them that can be found without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tta_bench import registry, settings
from tta_bench.checked import validate
from tta_bench.checked.annotations import Count, Seed
from tta_bench.errors import UserError, did_you_mean
from tta_bench.records.live import Live
from tta_bench.streams.scenarios import Normal, Scenario
from tta_bench.suites.suite import Suite


@dataclass(frozen=True)
class _Plain:
    """What plain choices must be; those of a command line are, those of a Python call may not."""

    seeds: tuple[Seed, ...]
    limit: Count | None
    batch_size: Count | None
    amp: Literal["bf16"] | None


@dataclass(frozen=True)
class Choices:
    """A command's choices beyond the suite."""

    methods: tuple[str, ...] = ()  # empty: those of the suite
    tasks: tuple[str, ...] = ()  # empty: all of the suite
    model: str | None = None
    seeds: tuple[int, ...] = ()
    scenario: Scenario = field(default_factory=Normal)
    limit: int | None = None
    batch_size: int | None = None
    amp: str | None = None
    compile: bool = False
    live: Live | None = None
    waits: bool = False  # a stream that waits was asked for, also where the suite has other speeds
    costs: Mapping[str, float] | None = None  # measured costs of rows by label, for a live stream; None: counted
    overrides: dict[str, settings.Settings] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)  # by label: a sentence on how its settings were chosen

    def __post_init__(self) -> None:
        validate.read(_Plain, {name: getattr(self, name) for name in _Plain.__annotations__}, "run")
        fixed = self.scenario.batch_size
        if fixed is not None and self.batch_size not in (None, fixed):
            raise UserError(
                f"--scenario {self.scenario.name} requires batches of {fixed}, got {self.batch_size}: omit --batch-size"
            )
        if self.live and self.live.speed and self.live.busy == "stale" and self.compile:
            raise UserError("--compile needs --busy source or released: copies for --busy stale would compile again")


def refuse_misnamed(suite: Suite, choices: Choices) -> None:
    """Refuse unknown methods, tasks and settings before anything heavy is imported."""
    for task in choices.tasks:
        if task not in suite.tasks:
            raise UserError(f"suite '{suite.name}' has no task '{task}'{did_you_mean(task, suite.tasks)}")
    labels = choices.methods or tuple(suite.methods)
    for label in labels:
        refuse_unknown(label, suite, choices)
    refuse_unused_settings(choices, labels)
    for label in labels:
        registry.installed().require(settings_of(label, suite, choices).get("method", label))


def refuse_unknown(label: str, suite: Suite, choices: Choices) -> None:
    """Refuse a row that is neither in the suite nor an installed method, and names no method."""
    known = {*suite.methods, *suite.other_methods, *registry.installed().names()}
    if label not in known and "method" not in choices.overrides.get(label, {}):
        raise UserError(f"unknown method '{label}'{did_you_mean(label, known)}")


def refuse_unused_settings(choices: Choices, labels: Sequence[str]) -> None:
    """Refuse a setting for a method that is not in this run."""
    for name in choices.overrides:
        if name not in labels:
            raise UserError(f"--set {name}.…: method '{name}' is not in this run ({', '.join(labels)})")


def settings_of(label: str, suite: Suite, choices: Choices) -> settings.Settings:
    """The settings of a row: the suite's, overridden by the command line's."""
    return {**suite.settings(label), **choices.overrides.get(label, {})}
