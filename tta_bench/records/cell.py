"""Cells: one method on one stream with one seed, the unit of work and of resuming."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tta_bench.records.conditions import Conditions

# Modules that shape what a method sees and what is counted; those of the data have a hash of their own.
HARNESS = (
    *("run.runner", "method", "registry", "models.source", "models.weights", "models.checkpoint", "models.precision"),
    *("data.loading", "data.cache", "data.images", "streams.stream", "streams.scenarios", "data.seeding"),
    *("measure.metrics", "measure.clock", "measure.cost", "measure.memory"),
)


@dataclass(frozen=True)
class Cell:
    """Everything that can change a result. Two cells with one key give one result."""

    suite: str
    suite_version: int
    tasks: tuple[str, ...]  # what is scored: one task, or all of them in one stream
    scenario: str
    seed: int
    method: str
    settings: dict[str, Any]  # every setting with its value, defaults included
    method_code: str  # hash of the source files behind the method
    data: dict[str, Any]
    data_code: str
    stream: str  # digest of the image ids in their order
    source: str  # digest of the source images that the method prepares on, if any
    model: str
    weights: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    batch_size: int
    limit: int | None
    device: str
    amp: str | None
    compile: bool
    harness: str  # version of tta-bench, and a hash of the code through which every method runs
    seed_is_set: bool = False  # whether a setting `seed` was chosen, rather than following the cell's
    images: str = ""  # digest of the labels and a few images' pixels: the same names may be of another tree

    @property
    def name(self) -> str:
        """The stream in a word: its task, or the scenario where it runs over several."""
        return self.tasks[0] if len(set(self.tasks)) == 1 else self.scenario

    @cached_property
    def key(self) -> str:
        return _hash(self._content())

    @cached_property
    def conditions(self) -> Conditions:
        """What this cell ran under, apart from its method: when its result may be compared."""
        return Conditions.of(self)

    @property
    def own_settings(self) -> dict[str, Any]:
        """The settings that tell methods apart: without a seed that only follows the cell's."""
        if self.seed_is_set:
            return self.settings
        return {k: v for k, v in self.settings.items() if (k, v) != ("seed", self.seed)}

    def _content(self) -> dict[str, Any]:
        """What is hashed. What older records do not have is left out there, so that they keep their keys."""
        content = asdict(self)
        for name in ("seed_is_set", "images"):
            if not content[name]:
                del content[name]
        return content

    @property
    def slug(self) -> str:
        """A file name that a person can read and that no other cell has."""
        return f"{self.method}--{self.name}--seed{self.seed}--{self.key[:12]}"


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def code_hash(module: str, packages: frozenset[str] = frozenset()) -> str:
    """A hash over a module's source and all it imports from its own package, or from these others.

    So an edited method never reuses results of its old code, and an edit of one method leaves the cells of
    the others valid. Version numbers alone would miss what a developer changes in between.
    """
    followed = packages | {module.partition(".")[0]}
    waiting, seen = [module], set()
    while waiting:
        name = waiting.pop()
        path = _source(name)
        if name in seen or path is None:
            continue
        seen.add(name)
        is_package = path.name == "__init__.py"
        waiting += sorted(_imports(path.read_text(), f"{name}.__init__" if is_package else name, followed))
    return _hash_sources(seen)


@cache
def harness_hash() -> str:
    """A hash over the code through which every method runs: an edit of it may change any result."""
    return _hash_sources({f"tta_bench.{name}" for name in HARNESS})


def _hash_sources(modules: Collection[str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(modules):
        path = _source(name)
        if path is not None:
            digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _source(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _imports(source: str, module: str, packages: Collection[str]) -> set[str]:
    """Names that may be modules of the packages; those that are not are passed over later."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] in packages}
