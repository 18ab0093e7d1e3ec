"""Refuses unknown names in a run's options, before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Sequence

from tta_bench import registry, settings
from tta_bench.errors import UserError, did_you_mean
from tta_bench.runs.options import RunOptions
from tta_bench.suites.suite import Suite


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
        registry.installed().require(settings_of(label, suite, options).get("method", label))


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


def settings_of(label: str, suite: Suite, options: RunOptions) -> settings.Settings:
    """The settings of a row: the suite's, overridden by the run's."""
    return {**suite.settings(label), **options.overrides.get(label, {})}
