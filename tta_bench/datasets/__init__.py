"""Where a suite's images come from: kinds of data, named by `data: {kind: …}` in its YAML.

Each kind is a subclass of `Dataset` behind an entry point of the group `tta_bench.datasets`, imported when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tta_bench import plugins
from tta_bench.checked import validate
from tta_bench.datasets.base import Dataset
from tta_bench.errors import UserError, did_you_mean, require_known, third_party
from tta_bench.plugins import Group

__all__ = ["Dataset", "kind", "kinds", "open_dataset"]


@cache
def kinds() -> Group:
    """The installed kinds of data; read once, imports none of them."""
    return Group("dataset", plugins.claims("dataset"))


def kind(name: str) -> type[Dataset]:
    """The class of a kind, by its name."""
    cls: type[Dataset] = kinds().load_class(name, Dataset)
    return cls


def open_dataset(config: Mapping[str, Any], tasks: Sequence[str], root: Path | None) -> Dataset:
    """Open the dataset of a suite's `data` block; UserError for unknown kinds, options or tasks."""
    options = dict(config)
    name = options.pop("kind", None)
    if not isinstance(name, str) or name not in kinds().claims:
        raise UserError(f"data: unknown kind '{name}'{did_you_mean(str(name), kinds().claims)}")
    cls = kind(name)
    arguments = validate.arguments(cls, options, f"data: kind '{name}'", "option")
    with third_party(f"data: kind '{name}' cannot be opened"):
        dataset = cls(root, **arguments)
        known = dataset.tasks()
    require_known(tasks, known, "unknown task")
    return dataset
