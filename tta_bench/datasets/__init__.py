"""Where a suite's images come from: one module per kind of data, named by `data: {kind: …}` in its YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tta_bench import validate
from tta_bench.datasets.base import Dataset
from tta_bench.datasets.cifar_c import CifarC
from tta_bench.datasets.class_folders import ClassFolders
from tta_bench.datasets.digits_c import DigitsC
from tta_bench.datasets.file_list import FileList
from tta_bench.datasets.imagenet_c import ImageNetC
from tta_bench.datasets.office_home import OfficeHome
from tta_bench.errors import UserError, did_you_mean

__all__ = ["KINDS", "Dataset", "open_dataset"]

KINDS: dict[str, type[Dataset]] = {
    "cifar-c": CifarC,
    "class-folders": ClassFolders,
    "digits-c": DigitsC,
    "file-list": FileList,
    "imagenet-c": ImageNetC,
    "office-home": OfficeHome,
}


def open_dataset(config: Mapping[str, Any], tasks: Sequence[str], root: Path | None) -> Dataset:
    """The dataset that a suite's `data` block describes, checked to know all its tasks."""
    options = dict(config)
    kind = options.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(f"data: unknown kind '{kind}'{did_you_mean(str(kind), KINDS)}")
    cls = KINDS[kind]
    dataset = cls(root, **validate.arguments(cls, options, f"data: kind '{kind}'", "option"))
    known = dataset.tasks()
    for task in tasks:
        if task not in known:
            raise UserError(f"unknown task '{task}'{did_you_mean(task, known)}")
    return dataset
