"""Cells: one method on one stream with one seed, the unit of work and of resuming."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any


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
    harness: str  # version of tta-bench
    seed_is_set: bool = False  # whether a setting `seed` was chosen, rather than following the cell's

    @property
    def name(self) -> str:
        """The stream in a word: its task, or the scenario where it runs over several."""
        return self.tasks[0] if len(set(self.tasks)) == 1 else self.scenario

    @property
    def key(self) -> str:
        return _hash(self._content())

    @property
    def variant(self) -> str:
        """One row of a table: the key without tasks, stream and seed."""
        content = {k: v for k, v in self._content().items() if k not in ("tasks", "stream", "source", "seed")}
        return _hash({**content, "settings": self.own_settings})

    @property
    def own_settings(self) -> dict[str, Any]:
        """The settings that tell methods apart: without a seed that only follows the cell's."""
        if self.seed_is_set:
            return self.settings
        return {k: v for k, v in self.settings.items() if (k, v) != ("seed", self.seed)}

    def _content(self) -> dict[str, Any]:
        """What is hashed. A seed that is not set is left out: records from before it was noted keep their keys."""
        content = asdict(self)
        if not self.seed_is_set:
            del content["seed_is_set"]
        return content

    @property
    def slug(self) -> str:
        """A file name that a person can read and that no other cell has."""
        return f"{self.method}--{self.name}--seed{self.seed}--{self.key[:12]}"


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def code_hash(module: str) -> str:
    """A hash over a module's source and all it imports from its own package.

    So an edited method never reuses results of its old code, and an edit of one method leaves the cells of
    the others valid. Version numbers alone would miss what a developer changes in between.
    """
    package = module.partition(".")[0]
    waiting, seen, digest = [module], set(), hashlib.sha256()
    while waiting:
        name = waiting.pop()
        path = _source(name)
        if name in seen or path is None:
            continue
        seen.add(name)
        is_package = path.name == "__init__.py"
        waiting += sorted(_imports(path.read_text(), f"{name}.__init__" if is_package else name, package))
    for name in sorted(seen):
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


def _imports(source: str, module: str, package: str) -> set[str]:
    """Names that may be modules of the same package; those that are not are passed over later."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] == package}
