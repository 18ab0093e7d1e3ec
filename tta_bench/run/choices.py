"""What a command line asks for beyond the suite, and what can be said of it at once: nothing here imports torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tta_bench import registry, settings
from tta_bench.errors import UserError, did_you_mean
from tta_bench.suites.suite import Scenario, Suite


@dataclass(frozen=True)
class Choices:
    """What a command line asks for beyond the suite."""

    methods: tuple[str, ...] = ()  # empty: those of the suite
    model: str | None = None
    seeds: tuple[int, ...] = ()
    scenario: Scenario = "normal"
    imbalance: float | None = None  # of label-shift; None: the usual
    limit: int | None = None
    batch_size: int | None = None
    device: str = "auto"
    data_root: Path | None = None
    workers: int | None = None  # None: as many as help
    cache: Path | None = None
    amp: str | None = None
    compile: bool = False
    overrides: dict[str, settings.Settings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.imbalance is not None and self.scenario != "label-shift":
            raise UserError(f"--imbalance is of --scenario label-shift, this is {self.scenario}")
        if self.scenario == "single" and self.batch_size not in (None, 1):
            raise UserError(
                f"--scenario single has batches of one image, not {self.batch_size}: leave --batch-size out"
            )
        if self.cache is not None:
            _refuse_unwritable(self.cache)


def _refuse_unwritable(cache: Path) -> None:
    """A cache is made with the first image that is read; that it cannot be is known now."""
    there = next(folder for folder in (cache.absolute(), *cache.absolute().parents) if os.path.lexists(folder))
    if not there.is_dir():
        raise UserError(f"--cache {cache}: {there} is a file, expected a folder")
    is_filled = there == cache.absolute() and any(cache.glob("*.u8"))  # one to read from need not be written
    if not is_filled and not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--cache {cache}: {there} cannot be written: choose another --cache")


def refuse_misnamed(suite: Suite, choices: Choices) -> None:
    """Answer a typo in the name of a method before anything heavy is imported."""
    labels = choices.methods or tuple(suite.methods)
    for label in labels:
        refuse_unknown(label, suite)
    refuse_idle(choices, labels)
    for label in labels:
        registry.installed().entry(settings_of(label, suite, choices).get("method", label))


def refuse_unknown(label: str, suite: Suite) -> None:
    """A row is one of the suite's, or a method that is installed."""
    installed = registry.installed().claims
    if label not in suite.methods and label not in installed:
        raise UserError(f"unknown method '{label}'{did_you_mean(label, {*suite.methods, *installed})}")


def refuse_idle(choices: Choices, labels: Sequence[str]) -> None:
    """A setting for a method that does not run is a mistake, not a wish."""
    for name in choices.overrides:
        if name not in labels:
            raise UserError(f"--set {name}.…: method '{name}' is not in this run ({', '.join(labels)})")


def settings_of(label: str, suite: Suite, choices: Choices) -> settings.Settings:
    """The suite's settings of a row, then those of the command line."""
    return {**suite.methods.get(label, {}), **choices.overrides.get(label, {})}
