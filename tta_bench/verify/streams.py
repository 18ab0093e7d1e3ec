"""Orders, labels and pixels as the suite defines them, made here from the same names and seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.data.images import fingerprint
from tta_bench.datasets import Dataset, kinds, open_dataset
from tta_bench.errors import UserError, needs_packages, third_party
from tta_bench.identity.code import code_hash
from tta_bench.records.cell import Cell
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.streams.composition import OWN
from tta_bench.streams.scenarios import SCENARIOS, Material, Scenario, scenario_of
from tta_bench.streams.stream import digest, make_stream
from tta_bench.verify.findings import Audit

MOST_IMAGES = 50_000  # that are drawn for a check; a record may ask for any number
PACKAGES = ("numpy", "scipy", "pillow")  # other versions may draw other pixels


@dataclass(frozen=True)
class ExpectedStream:
    """A stream as it should be."""

    digest: str
    index: NDArray[np.int64]
    label: NDArray[np.int64]
    task: NDArray[np.int64]
    images: str  # digest of labels and of a sample's pixels; empty if that is not known here
    data_code: str


class Impossible(UserError):
    """A record describes an impossible stream."""


def check(record: Record, predictions: Predictions, root: Path | None, audit: Audit, where: str) -> None:
    """Compare a cell's order, labels and images with its suite's."""
    cell = record.cell
    try:
        with needs_packages():  # embedded images are drawn with some that a light install leaves out
            expected = _expected(_name(cell), root)
    except Impossible as error:
        audit.fails("orders", where, str(error))
        return
    except UserError as error:
        for name in ("orders", "labels", "images"):
            audit.unknown(name, where, f"no data: {error}")
        return
    is_same = expected.data_code == cell.found.data_code
    other = "" if is_same else ": its images were made by another version of the code"
    complaints = {"orders": _order(cell, predictions, expected), "labels": _labels(predictions, expected)}
    for name, complaint in complaints.items():
        audit.judge(name, where, complaint and complaint + other)
    if not expected.images:
        audit.unknown("images", where, "pixels of data on disk depend on the model's input size")
    elif expected.images == cell.found.images:
        audit.holds("images", where)
    elif other or _other_packages(record):
        audit.unknown("images", where, f"they differ, as other versions of {', '.join(PACKAGES)} or of the code can")
    else:
        audit.fails("images", where, f"their digest is {cell.found.images}, expected {expected.images}")


def _order(cell: Cell, found: Predictions, expected: ExpectedStream) -> str:
    if cell.found.stream != expected.digest:
        return f"the digest of its order is {cell.found.stream}, expected {expected.digest}"
    if found.images != len(expected.index):
        return f"has {found.images:,} images, expected {len(expected.index):,}"
    index, task = found.whole("index"), found.whole("task")
    for name, own, right in (("image", index, expected.index), ("task", task, expected.task)):
        if (wrong := own != right).any():
            return f"{int(wrong.sum()):,} predictions are for another {name} than the order says"
    return ""


def _labels(found: Predictions, expected: ExpectedStream) -> str:
    if found.images != len(expected.label):
        return f"has {found.images:,} labels, expected {len(expected.label):,}"
    wrong = int((found.whole("label") != expected.label).sum())
    return f"{wrong:,} of {found.images:,} labels differ from the data" if wrong else ""


def _name(cell: Cell) -> str:
    """Everything that an order depends on, as a text that methods share."""
    names = ("suite", "tasks", "scenario", "scenario_settings", "seed", "limit", "data")
    parts = [getattr(cell.spec, name) for name in names]
    return json.dumps(parts, sort_keys=True)


@lru_cache(maxsize=4)
def _expected(name: str, root: Path | None) -> ExpectedStream:
    suite, tasks, scenario_name, settings, seed, limit, data = json.loads(name)
    scenario = _scenario(scenario_name, settings)
    opened = list(scenario.tasks_of(tasks))
    dataset = _open(data, opened, root)
    parts = scenario.parts(Material(dataset, data, suite, seed, tasks, root))
    with third_party(f"--scenario {scenario_name}"):  # a choice may be a stranger's
        stream = make_stream(scenario, suite, seed, parts, limit)
    numbers = {task: number for number, task in enumerate(dict.fromkeys(tasks))}
    is_drawn = all(dataset.places(task) == () for task in opened)
    return ExpectedStream(
        digest=stream.digest,
        index=stream.order,
        label=stream.images.labels[stream.order],
        task=np.array([numbers[task] for task in stream.task_of(stream.order)], np.int64),
        images=digest([fingerprint(part.images) for part in parts]) if is_drawn else "",
        data_code=code_hash(dataset.code, kinds().packages()),
    )


def _scenario(name: str, settings: Mapping[str, Any]) -> Scenario:
    """Accept settings that this version does not know; refuse impossible values of known ones."""
    is_known = name in SCENARIOS and settings.keys() <= {f.name for f in fields(SCENARIOS[name])}
    is_known |= name not in SCENARIOS and all(part.partition(":")[0] in OWN for part in name.split("+"))
    try:
        return scenario_of(name, settings)
    except (UserError, TypeError, ValueError, OverflowError) as error:  # settings of a record may have any type
        raise (Impossible if is_known else UserError)(f"scenario '{name}': {error}") from error


def _open(data: Mapping[str, Any], tasks: list[str], root: Path | None) -> Dataset:
    asked = data.get("images")
    if isinstance(asked, int) and asked > MOST_IMAGES:
        raise UserError(f"{asked:,} images are more than {MOST_IMAGES:,}, which are drawn at most")
    return open_dataset(data, tasks, root)


def _other_packages(record: Record) -> bool:
    """Whether a record was made with other versions of what draws pixels, or does not say."""
    theirs = record.measured.environment.get("packages") or {}
    try:
        return any(theirs.get(name) != version(name) for name in PACKAGES)
    except PackageNotFoundError:
        return True
