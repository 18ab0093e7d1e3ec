"""A request for one cell, as plain data. Needs no torch.

specs(suite, choices)  ->  [CellSpec, …]         what a command requests (runs/spec.py)
bind(spec, site)       ->  Work                  the same with real weights and images (runs/bind.py)
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta

from tta_bench.checked.annotations import Count, Name, Seed, Whole
from tta_bench.records.asked import Asked
from tta_bench.records.live import Live

CLEAN = "clean"  # the part of a composed stream with clean images
BASELINE = "source"  # the method that does not adapt
Short = Annotated[str, Meta(max_length=1000, title="text of at most 1,000 characters")]
Label = Annotated[str, Meta(min_length=1, max_length=1000, title="text of at most 1,000 characters")]
# A composition, as in continual+dirichlet:0.1,slots=10; also a part of file names, where its other marks become "-".
ScenarioName = Annotated[
    str, Meta(pattern=r"^\w[\w.+:,=-]*\Z", max_length=200, title="a scenario's name of at most 200 characters")
]
Tasks = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1000)]


@dataclass(frozen=True)
class CellSpec(Asked):
    """A request for one method on one stream with one seed. Any process can resolve it."""

    suite: Name
    suite_version: Whole
    data: dict[str, Any]  # the suite's data block
    tasks: Tasks  # of this stream: one, or all if the scenario joins them
    scenario: ScenarioName
    seed: Seed
    label: Label = field(compare=False)  # of the row in tables: the method's name, or a suite's name for a variant
    method: Name
    settings: dict[str, Any]  # as given; the method's defaults fill in the rest
    model: Short
    batch_size: Count
    scenario_settings: dict[str, Any] = field(default_factory=dict)
    live: Live | None = None  # None: the stream waits for the method
    paper: str = field(default="", compare=False)  # of the suite: its tables need exactly named weights

    @property
    def name(self) -> str:
        """The stream's short name: its task, or the scenario if it covers several tasks."""
        return self.tasks[0] if len(set(self.tasks)) == 1 else self.scenario

    @property
    def choices(self) -> list[str]:
        """The words of the scenario, without their settings."""
        return [choice.partition(":")[0] for choice in self.scenario.split("+")]

    @property
    def averaged(self) -> tuple[str, ...]:
        """The tasks that averages are over, each once: not the clean images that a composed stream has beside them."""
        has_clean = not {CLEAN, "remember"}.isdisjoint(self.choices)
        return tuple(task for task in dict.fromkeys(self.tasks) if not (has_clean and task == CLEAN))

    @cached_property
    def digest(self) -> str:
        """A digest of the request, without names that change no result."""
        content = {key: value for key, value in self.to_json().items() if key not in ("label", "paper")}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "tasks": list(self.tasks)}
