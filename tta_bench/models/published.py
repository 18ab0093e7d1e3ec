"""What is published about source models that people use: a table of facts, in published.csv.

Accuracies, licences and addresses are as the models' authors state them: in a model card of the hub, in RobustBench's
table, in the metadata of torchvision and timm. A value that they do not state is empty.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from tta_bench.models.names import without_path


@dataclass(frozen=True)
class PublishedModel:
    """One model with its weights for one dataset."""

    model: str  # as in --model, without a file
    data: str  # what it was trained on
    kind: str  # the kind of data whose originals are that dataset's test images; empty if none is
    classes: int
    pixels: int
    clean: float | None  # top-1 accuracy on the clean test images, in percent
    licence: str
    weights: str  # where to download them by hand; empty if the model's own library does


@cache
def table() -> tuple[PublishedModel, ...]:
    """All rows, in the file's order."""
    with Path(__file__).with_name("published.csv").open(newline="") as file:
        lines = [{**line, "clean": line["clean"] or None} for line in csv.DictReader(file)]
    return msgspec.convert(lines, tuple[PublishedModel, ...], strict=False)


def rows(name: str, kind: str) -> list[PublishedModel]:
    """What is published about a model on this kind of data: one row for each number of classes."""
    model = without_path(name).partition("@")[0]
    return [row for row in table() if (row.model, row.kind) == (model, kind)]
