"""What `check` finds, and what it finds in the data. Imports no torch, so that both can go on at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tta_bench.datasets import open_dataset
from tta_bench.datasets.base import SAMPLE
from tta_bench.errors import UserError
from tta_bench.run.choices import Choices
from tta_bench.streams.scenarios import levels
from tta_bench.suites.suite import Suite

T = TypeVar("T")

OnTaskOpened = Callable[[str, int, int], None]  # task, images opened, of how many


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    told: str


class Findings(list[Finding]):
    """Goes on after a mistake, so that one look shows all."""

    def look(self, what: str, at: Callable[[], T], tell: Callable[[T], str]) -> T | None:
        """Look at one thing and note what was found; None if that is a mistake."""
        try:
            found = at()
            self.append(Finding(what, True, tell(found)))
        except UserError as error:
            self.append(Finding(what, False, str(error)))
            return None
        return found


def in_data(
    suite: Suite, choices: Choices, *, sample: int | None = SAMPLE, on_opened: OnTaskOpened | None = None
) -> list[Finding]:
    """Count classes and images of every task, and open a few; without a sample all, which is told to `on_opened`."""
    findings = Findings()
    dataset = findings.look(
        "data",
        lambda: open_dataset(suite.data, suite.tasks, choices.data_root),
        lambda found: f"expects {found.layout}" if found.layout else "comes with tta-bench",
    )
    if dataset is None:
        return findings
    try:
        for name, level, task in levels(choices.scenario, suite.tasks, dataset):
            told = partial(on_opened, name) if on_opened else None
            findings.look(f"task {name}", partial(level.inspect, task, sample=sample, on_opened=told), str)
    except UserError as error:  # the scenario is not for such data
        findings.append(Finding("--scenario", False, str(error)))
    return findings
