"""Hashes of the code that can change a number; prose does not count.

A module is hashed as its syntax tree without comments, docstrings, annotations and error messages, so that rewriting a
sentence keeps results valid. Its folder and name do not count either: moving a file keeps results valid, too.
Hashing imports nothing.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from tta_bench.identity.syntax import OWN, for_type_checkers, syntax

# Every cell runs through these modules; the code of its data and of its method is hashed separately.
HARNESS = (
    *(
        "isolation.adapter",
        "isolation.adaptation",
        "isolation.logits",
        "isolation.host",
        "isolation.scores",
        "isolation.prepared",
        "isolation.side_effects",
        "isolation.standby",
        "method",
        "registry",
        "settings",
    ),
    *("models.source", "models.packaged", "models.weights", "models.checkpoint", "models.precision"),
    *("models.cifar_nets", "data.loading", "data.cache", "data.images", "data.seeding"),
    *("streams.stream", "streams.scenarios", "streams.orders", "streams.schedule", "records.live"),
    *("measure.metrics", "measure.open_set", "measure.confidence", "measure.clock", "measure.cost"),
    *("measure.memory", "measure.process", "measure.flops"),
)
# Hashed modules import these, but they cannot affect results.
SHAPES_NOTHING = frozenset(
    {
        "tta_bench",
        "tta_bench.models.names",  # which the cell states
        "tta_bench.records.asked",  # whose values the cell states, too
        *(f"tta_bench.{name}" for name in ("errors", "files", "plugins", "system")),
        "tta_bench.checked",
        *(f"tta_bench.checked.{name}" for name in ("annotations", "options", "parse", "readers", "validate")),
        *("tta_bench.download", "tta_bench.download.table"),
    }
)


@cache
def code_hash(module: str, packages: frozenset[str] = frozenset()) -> str:
    """A hash over a module and everything it imports from its own package or from `packages`.

    An edited method never reuses results of its old code, and editing one method keeps the others' cells valid.
    Version numbers would miss edits between releases.
    """
    return _hash_modules(_closure(module, packages | {module.partition(".")[0]}))


def loaded_hash(module: str, packages: frozenset[str] = frozenset()) -> str:
    """`code_hash` of a module that is imported: taken again when it, or a module that it uses, was reloaded.

    Not whenever the file changes: without a reload, the old code is what runs.
    """
    specs, found = _loaded.get((module, packages), ({}, ""))
    if not specs or any(_spec(name) is not spec for name, spec in specs.items()):
        roots = packages | {module.partition(".")[0]}
        specs = {name: _spec(name) for name in list(sys.modules) if name.partition(".")[0] in roots}
        found = code_hash.__wrapped__(module, packages)
        _loaded[module, packages] = specs, found
    return found


_loaded: dict[tuple[str, frozenset[str]], tuple[dict[str, object], str]] = {}


def _spec(module: str) -> object:
    """Another object after each reload."""
    return getattr(sys.modules.get(module), "__spec__", None)


@cache
def harness_hash() -> str:
    """A hash over the code that every method runs through: editing it may change any result."""
    return _hash_modules({f"{OWN}.{name}" for name in HARNESS})


def class_hash(cls: type, packages: frozenset[str] = frozenset()) -> str:
    """A hash over a class of a script or a notebook and its bases, without what it uses beside them.

    A notebook keeps no source: then bytecode counts, and with it the version of Python.
    """
    own = [part for part in cls.__mro__ if part.__module__ == cls.__module__]
    try:
        texts = [syntax(textwrap.dedent(inspect.getsource(part))) for part in own]
    except (OSError, TypeError, SyntaxError):
        texts = [repr([sorted(_members(part)) for part in own])]
    texts += [loaded_hash(module, packages) for module in base_modules(cls)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def base_modules(cls: type) -> list[str]:
    """The other modules that a class inherits from, except Python's, torch's and tta-bench's."""
    known = {*sys.stdlib_module_names, "torch", OWN}
    found = dict.fromkeys(part.__module__ for part in cls.__mro__ if part.__module__ != cls.__module__)
    return [module for module in found if module.partition(".")[0] not in known]


def is_outdated(cls: type) -> bool:
    """Whether the module of a class was reloaded and now has another class of this name."""
    now = getattr(sys.modules.get(cls.__module__), cls.__qualname__, cls)
    return isinstance(now, type) and now is not cls and dict(_members(now)) != dict(_members(cls))


def _members(cls: type) -> Iterator[tuple[str, str]]:
    """What a class defines itself, by name; not what Python adds to every class."""
    for name, value in vars(cls).items():
        special = name.startswith("__") and not inspect.isfunction(value)
        if not special and name != "_abc_impl":
            yield name, _described(value)


def _described(value: object) -> str:
    """A text that is the same in every process; for a function what it does, below its decorators."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, property):
        return repr([_described(part) for part in (value.fget, value.fset)])
    if inspect.isfunction(value):
        inner: Any = inspect.unwrap(value)
        return repr((_described(inner.__code__), inner.__defaults__, inner.__kwdefaults__))
    if isinstance(value, CodeType):
        return repr((value.co_code, value.co_names, [_described(constant) for constant in value.co_consts]))
    return repr(value)


def _closure(module: str, packages: Collection[str]) -> set[str]:
    waiting, seen = [module], set()
    while waiting:
        name = waiting.pop()
        path = source_file(name)
        if name in seen or path is None or name in SHAPES_NOTHING:
            continue
        seen.add(name)
        is_package = path.name == "__init__.py"
        waiting += sorted(_imports(path.read_text(), f"{name}.__init__" if is_package else name, packages))
    return seen


def _hash_modules(modules: Collection[str]) -> str:
    packages = {name.partition(".")[0] for name in modules}
    files = [path for path in map(source_file, modules) if path is not None]
    trees = sorted(syntax(path.read_text(), packages) for path in files)  # sorted: a moved file counts as the same
    return hashlib.sha256("\0".join(trees).encode()).hexdigest()[:16]


def source_file(module: str) -> Path | None:
    """The file of a module, found without importing its package."""
    top, *below = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not below:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for home in spec.submodule_search_locations or ():
        place = Path(home, *below)
        for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if file.is_file():
                return file
    return None


def _imports(source: str, module: str, packages: Collection[str]) -> set[str]:
    """Imported names that may be modules of the packages; names that are not modules have no file."""
    found: set[str] = set()
    for node in _runtime_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] in packages}


def _runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not for_type_checkers(node):
            yield node
            yield from _runtime_nodes(node)
