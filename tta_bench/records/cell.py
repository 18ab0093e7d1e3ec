"""Cells: one method on one stream with one seed, the unit of work and of resuming."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Annotated, Any

from msgspec import Meta

from tta_bench.checked.annotations import Count, Name, Seed, Whole
from tta_bench.records.conditions import Conditions
from tta_bench.records.live import Live

Short = Annotated[str, Meta(max_length=1000, title="text of at most 1,000 characters")]
Tasks = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1000)]


@dataclass(frozen=True)
class Cell:
    """The identity of a result: everything that can change it. Cells with the same key give the same result.

    It is known once a request (`CellSpec`) is bound to real weights and images.
    """

    suite: Name
    suite_version: Whole
    tasks: Tasks  # what is scored: one task, or all of them in one stream
    scenario: Name
    seed: Seed
    method: Name
    settings: dict[str, Any]  # every setting with its value, defaults included
    method_code: Short  # hash of the code behind the method, and of files that its settings name
    data: dict[str, Any]
    data_code: Short
    stream: Short  # digest of the image ids in their order
    source: Short  # digest of the source images that the method prepares on, if any
    model: Short
    weights: Short
    mean: tuple[float, ...]
    std: tuple[float, ...]
    batch_size: Count
    limit: Count | None  # None if it did not shorten this stream
    device: Short
    amp: Name | None
    compile: bool
    harness: Short  # version of tta-bench, and a hash of the code that every method runs through
    images: Short  # digest of the labels and of a sample's pixels: another tree may have the same names
    scenario_settings: dict[str, Any] = field(default_factory=dict)
    seed_is_set: bool = False  # whether the setting `seed` was given, instead of the cell's seed
    live: Live | None = None  # None: the stream waits for the method

    @property
    def name(self) -> str:
        """The stream's short name: its task, or the scenario if it covers several tasks."""
        return self.tasks[0] if len(set(self.tasks)) == 1 else self.scenario

    @cached_property
    def key(self) -> str:
        content = {name: getattr(self, name) for name in _names()}  # asdict copies deeply: ten times as long
        live = content.pop("live")
        if live is not None:  # a stream that waits has the key that it had before there were live ones
            content["live"] = live.identity
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @cached_property
    def identity(self) -> str:
        """The key without the device: the same on every machine with the same code, weights and images."""
        return replace(self, device="").key

    @cached_property
    def conditions(self) -> Conditions:
        """What this cell ran under, apart from its method: decides what its result can be compared with."""
        return Conditions.of(self)

    @property
    def own_settings(self) -> dict[str, Any]:
        """The settings that distinguish methods: without a seed that is only the cell's, with `adapt-every`."""
        rests = {"adapt-every": self.live.adapt_every} if self.live and self.live.adapt_every > 1 else {}
        if self.seed_is_set:
            return {**self.settings, **rests}
        return {k: v for k, v in self.settings.items() if (k, v) != ("seed", self.seed)} | rests

    @property
    def slug(self) -> str:
        """A readable file name, unique to this cell."""
        return f"{self.method}--{self.name}--seed{self.seed}--{self.key[:12]}"


@cache
def _names() -> tuple[str, ...]:
    return tuple(f.name for f in fields(Cell))
