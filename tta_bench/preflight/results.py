"""CheckResults of a check, and the check of the data. Imports no torch, so that it can run in another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tta_bench.datasets import Dataset, open_dataset
from tta_bench.datasets.base import SAMPLE
from tta_bench.errors import UserError
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.streams.scenarios import Material, Scenario
from tta_bench.suites.suite import Suite

T = TypeVar("T")

OnTaskOpened = Callable[[str, int, int], None]  # task, images opened, of how many


@dataclass(frozen=True)
class CheckResult:
    """One thing that was checked."""

    what: str
    ok: bool
    text: str


class CheckResults(list[CheckResult]):
    """A list of results that continues after a mistake, so that one check finds all."""

    def note(self, what: str, check: Callable[[], T], describe: Callable[[T], str]) -> T | None:
        """Check one thing and note the outcome; None if it raises UserError."""
        try:
            found = check()
            self.append(CheckResult(what, True, describe(found)))
        except UserError as error:
            self.append(CheckResult(what, False, str(error)))
            return None
        return found


def in_data(
    suite: Suite, options: RunOptions, site: Site, *, sample: int | None = SAMPLE, on_opened: OnTaskOpened | None = None
) -> list[CheckResult]:
    """Count classes and images of every task and open a sample, or all images, with progress to `on_opened`."""
    results = CheckResults()
    tasks = tuple(options.tasks or suite.tasks)
    dataset = results.note(
        "data",
        lambda: open_dataset(suite.data, tasks, site.data_root),
        lambda found: f"expects {found.layout}" if found.layout else "comes with tta-bench",
    )
    if dataset is None:
        return results
    if options.protocol.makes_images:
        seed = (options.seeds or suite.seeds)[0]
        material = Material(dataset, suite.data, suite.name, seed, tasks, site.data_root)
        results.note(options.protocol.name, lambda: options.protocol.inspect(material), str)
        return results
    try:
        for name, level, task in _levels(options.protocol, tasks, dataset):
            report = partial(on_opened, name) if on_opened else None
            results.note(f"task {name}", partial(level.inspect, task, sample=sample, on_opened=report), str)
    except UserError as error:  # the scenario does not fit this data
        results.append(CheckResult("--scenario", False, str(error)))
    return results


def _levels(scenario: Scenario, tasks: tuple[str, ...], dataset: Dataset) -> Iterator[tuple[str, Dataset, str]]:
    """All data that a scenario reads: a name for it, the dataset at its severity, and the task."""
    for severity in sorted(set(scenario.severities), key=str):
        level = dataset if severity is None else dataset.at_severity(severity)
        at = "" if severity is None else f" at severity {severity}"
        yield from ((f"{task}{at}", level, task) for task in tasks)
