"""Compares records with published facts: the suite's data, the weights, and Source's accuracy."""

from __future__ import annotations

import csv
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from tta_bench.errors import UserError
from tta_bench.models import packaged
from tta_bench.papers.baseline import BASELINE, is_anothers, judge, other_weights, source_row
from tta_bench.records.cell import Cell
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.streams.scenarios import protocol
from tta_bench.suites import suite as suites
from tta_bench.verify.findings import Audit

FILE = "source.csv"  # made by `python -m benchmarks.source_reference`
COLUMNS = ("data", "weights", "amp", "task", "images", "top1")
FREE_OF_ORDER = ("normal", "single", "continual", "mixed")  # scenarios that show each image of a task once
DISTANCE = 0.003  # of Source's accuracy on another machine: its last bits decide a few images of thousands
TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "U8": "uint8"}


def check_suite(cell: Cell, audit: Audit, where: str) -> None:
    """Compare a cell's data with the suite of that name, if one is installed here."""
    if cell.spec.suite not in suites.names():
        audit.unknown("suites", where, f"suite '{cell.spec.suite}' is not installed here")
        return
    try:
        suite = suites.load(cell.spec.suite)
    except UserError as error:
        audit.unknown("suites", where, str(error))
        return
    if suite.version != cell.spec.suite_version:
        audit.unknown("suites", where, f"made with suite version {cell.spec.suite_version}, not {suite.version}")
        return
    try:
        opened = protocol(cell.spec).tasks_of(cell.spec.tasks)
    except UserError:  # reported with the orders
        opened = cell.spec.tasks
    strange = [task for task in opened if task not in suite.tasks]
    complaint = f"suite '{suite.name}' has no task '{strange[0]}'" if strange else ""
    if cell.spec.data != suite.data:
        complaint = f"its data are {json.dumps(cell.spec.data)}, suite '{suite.name}' has {json.dumps(suite.data)}"
    audit.judge("suites", where, complaint)


def check_weights(cell: Cell, audit: Audit, where: str) -> None:
    """Compare the hash of a cell's source weights with the packaged model's."""
    try:
        expected = published_weights(cell.spec.model)
    except UserError as error:
        audit.unknown("weights", where, str(error))
        return
    complaint = f"its '{cell.spec.model}' has weights {cell.found.weights}, the published ones are {expected}"
    audit.judge("weights", where, "" if cell.found.weights == expected else complaint)


@cache
def published_weights(model: str) -> str:
    """The hash of a packaged model's weights; UserError if there is nothing to compare with."""
    if model not in packaged.installed().claims:
        raise UserError(f"no published hash of the weights of '{model}'")
    paths = packaged.describe(model).files
    if len(paths) != 1 or paths[0].suffix != ".safetensors":
        raise UserError(f"the weights of '{model}' are in no single .safetensors file")
    return _hash_of(paths[0])


def _hash_of(path: Path) -> str:
    """`checkpoint.weights_hash` without torch."""
    from safetensors import SafetensorError, safe_open

    found = hashlib.sha256()
    try:
        with safe_open(path, framework="numpy") as file:
            for name in sorted(file.keys()):
                kind = file.get_slice(name).get_dtype()
                if kind not in TORCH:
                    raise UserError(f"{path}: weights of type {kind} cannot be hashed without torch")
                tensor = file.get_tensor(name)
                found.update(f"{name}:torch.{TORCH[kind]}:{tuple(tensor.shape)}".encode())
                found.update(tensor.data)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    return found.hexdigest()[:16]


def check_source(record: Record, predictions: Predictions, audit: Audit, where: str) -> None:
    """Compare the unadapted model's accuracies with the reference for the same data and weights, or with a paper's."""
    cell = record.cell
    if cell.spec.method != BASELINE:
        return
    if cell.spec.limit is not None or cell.spec.newer or not _is_even(record, predictions):
        audit.unknown("source", where, "no reference for a part of a stream, another mode or an uneven order")
        return
    for task in cell.spec.averaged:
        found = _against_reference(record, task)
        if found is None:
            found = _against_paper(record, task)
        if found is None:
            audit.unknown("source", where, f"no reference for Source on {cell.spec.suite} with these weights")
        else:
            audit.judge("source", where, found)


def _is_even(record: Record, predictions: Predictions) -> bool:
    """Whether a stream shows each image of its tasks equally often, so that its order cannot change Source's score."""
    spec = record.cell.spec
    if spec.scenario in FREE_OF_ORDER:
        return True
    try:
        if protocol(spec).severities != (None,):  # also others than the suite has
            return False
    except UserError:  # reported with the orders
        return False
    for task in spec.averaged:
        counts = np.bincount(predictions.index[predictions.task == spec.tasks.index(task)])
        counts = counts[counts > 0]
        if len(counts) != sizes().get(_key(record.cell, task)) or counts.min() != counts.max():
            return False
    return True


def _against_reference(record: Record, task: str) -> str | None:
    known = references().get(_key(record.cell, task))
    if known is None or task not in record.scores.task_top1:
        return None
    own = record.scores.task_top1[task]
    off = abs(own - known) > DISTANCE
    return f"Source scores {100 * own:.2f} % on {task}, the reference is {100 * known:.2f} %" if off else ""


def _against_paper(record: Record, task: str) -> str | None:
    cell = record.cell
    paper = suites.load(cell.spec.suite).paper if cell.spec.suite in suites.names() else ""
    row = source_row(paper, cell.spec.suite, task) if paper else None
    if (
        row is None
        or other_weights(row.table, cell.spec.model)
        or is_anothers(cell.spec.suite, cell.spec.data.get("kind"), cell.spec.tasks)
    ):
        return None
    if task not in record.scores.task_top1 or not record.reportable:
        return None
    images = record.scores.samples // len(cell.spec.tasks)
    return judge(task, round(record.scores.task_top1[task] * images), images, row, cell.found.mean) or ""


def _key(cell: Cell, task: str) -> tuple[str, str, str, str]:
    return json.dumps(cell.spec.data, sort_keys=True), cell.found.weights, cell.spec.amp or "", task


@cache
def references() -> dict[tuple[str, str, str, str], float]:
    """Source's accuracies as fractions, by data, weights, precision and task."""
    return {(line["data"], line["weights"], line["amp"], line["task"]): float(line["top1"]) for line in lines()}


@cache
def sizes() -> dict[tuple[str, str, str, str], int]:
    """How many images each accuracy of `references` is over."""
    return {(line["data"], line["weights"], line["amp"], line["task"]): int(line["images"]) for line in lines()}


def lines() -> list[dict[str, str]]:
    """The reference as it is stored."""
    text = (files(__package__) / FILE).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
