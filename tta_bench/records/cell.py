"""Cells: one method on one stream with one seed, the unit of work and of resuming."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.records.asked import Asked
from tta_bench.records.conditions import Conditions
from tta_bench.records.spec import CellSpec, Short


@dataclass(frozen=True)
class Found:
    """What binding found: the part of a cell's identity that no request states."""

    settings: dict[str, Any]  # every setting with its value, defaults and seed included
    method_code: Short  # hash of the code behind the method, and of files that its settings name
    data_code: Short
    stream: Short  # digest of the image ids in their order
    source: Short  # digest of the source images that the method prepares on, if any
    weights: Short
    mean: tuple[float, ...]
    std: tuple[float, ...]
    device: Short
    harness: Short  # version of tta-bench, and a hash of the code that every method runs through
    images: Short  # digest of the labels and of a sample's pixels: another tree may have the same names
    data: dict[str, Any] = field(default_factory=dict)  # how images are preprocessed, and how they were made


DESCRIBED = ("transform", "made_by")  # the keys of `Found.data`
# The order of a record's file. Cells are flat in it, as before they contained specs, so that keys stay the same.
FLAT = (
    *("suite", "suite_version", "tasks", "scenario", "seed", "method", "settings", "method_code", "data", "data_code"),
    *("stream", "source", "model", "weights", "mean", "std", "batch_size", "limit", "device", "amp", "compile"),
    *("harness", "images", "scenario_settings", "seed_is_set", "live"),
)
_OF_SPEC = {f.name for f in fields(CellSpec)}.intersection((*FLAT, *(f.name for f in fields(Asked))))


@dataclass(frozen=True)
class Cell:
    """The identity of a result: everything that can change it. Cells with the same key give the same result.

    Its spec is the request with what binding filled in: the stream's tasks, the model's own name, every setting but a
    seed that is the cell's own, and the limit only if it cut something off. Binding that again gives the same cell.
    """

    spec: CellSpec
    found: Found

    @property
    def name(self) -> str:
        """The stream's short name: its task, or the scenario if it covers several tasks."""
        return self.spec.name

    @property
    def data(self) -> dict[str, Any]:
        """The suite's data block, and what binding adds to it."""
        return {**self.spec.data, **self.found.data}

    @property
    def own_settings(self) -> dict[str, Any]:
        """The settings that distinguish methods: without a seed that is only the cell's, with `adapt-every`."""
        live = self.spec.live
        rests = {"adapt-every": live.adapt_every} if live and live.adapt_every > 1 else {}
        return {**self.spec.settings, **rests}

    @cached_property
    def conditions(self) -> Conditions:
        """What this cell ran under, apart from its method: decides what its result can be compared with."""
        return Conditions.of(self)

    @cached_property
    def key(self) -> str:
        content = self.flat()
        live = content.pop("live")
        if live is not None:  # streams that wait keep their keys from before live streams
            content["live"] = live.identity
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @cached_property
    def identity(self) -> str:
        """The key without the device: the same on every machine with the same code, weights and images."""
        return replace(self, found=replace(self.found, device="")).key

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes in this identity, by what somebody should look at where they differ."""
        found = self.found
        return {
            "code": f"{found.harness} {found.method_code} {found.data_code}",
            "weights": found.weights,
            "images": f"{found.images} {found.stream} {found.source}",
        }

    @property
    def slug(self) -> str:
        """A readable file name, unique to this cell."""
        name = re.sub(r"[^\w.+-]", "-", self.name)[:100]
        return f"{self.spec.method}--{name}--seed{self.spec.seed}--{self.key[:12]}"

    def flat(self) -> dict[str, Any]:
        """What identifies this cell, by name: the form of keys and files."""
        spec, found = self.spec, self.found
        own = {"settings": found.settings, "data": self.data, "seed_is_set": "seed" in spec.settings}
        flat = {name: own[name] if name in own else getattr(spec if name in _OF_SPEC else found, name) for name in FLAT}
        return {**flat, **spec.newer}

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any], label: str, where: str) -> Cell:
        """The cell that has this flat form, checked; `label` is that of its row."""
        content = dict(flat)
        is_set = content.pop("seed_is_set", False)
        settings, data = content.get("settings"), content.get("data")
        if not isinstance(is_set, bool):
            raise UserError(f"{where}: seed_is_set: expected true or false, got {validate.shown(is_set)}")
        found = {name: content.pop(name) for name in [*content] if name not in _OF_SPEC}
        if isinstance(settings, dict):
            found["settings"] = settings
            content["settings"] = {key: value for key, value in settings.items() if is_set or key != "seed"}
        if isinstance(data, dict):
            found["data"] = {key: data[key] for key in DESCRIBED if key in data}
            content["data"] = {key: value for key, value in data.items() if key not in DESCRIBED}
        spec = validate.read(CellSpec, {**content, "label": label}, where)
        return cls(spec, validate.read(Found, found, where, also=FLAT))


def unequal_parts(one: Cell, other: Cell) -> list[str]:
    """The names of what two cells differ in."""
    first, second = one.flat(), other.flat()
    return [name for name in {**first, **second} if first.get(name) != second.get(name)]
