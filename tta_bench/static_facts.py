"""What a class declares, read from its source. Importing a method would need torch, which a light install lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from typing import Any

from tta_bench.identity.code import source_file


def constants(module: str, name: str) -> dict[str, Any]:
    """The constants in the body of a class, such as `passes = "1 forward"`, and those that it inherits."""
    found: dict[str, Any] = {}
    for cls in _lineage(module, name):
        found = {**_assigned(cls.body), **found}
    return found


def stated(module: str, name: str, constant: str) -> list[Any]:
    """The values of one constant in a module, in a class of it and in the classes that it inherits from."""
    bodies = [_tree(module).body, *(cls.body for cls in _lineage(module, name))]
    return [value for body in bodies for key, value in _assigned(body).items() if key == constant]


def _assigned(body: list[ast.stmt]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and isinstance(targets[0], ast.Name):
            try:
                found.setdefault(targets[0].id, ast.literal_eval(node.value))
            except ValueError:  # computed: only an import would show it
                continue
    return found


def _tree(module: str) -> ast.Module:
    file = source_file(module)
    return ast.parse(file.read_text(encoding="utf-8")) if file else ast.Module([], [])


@cache
def published_settings(method: str) -> dict[str, Any]:
    """The constant defaults of a method's settings; empty if the method is not installed."""
    entry = next((e for e in metadata.entry_points(group="tta_bench.methods") if e.name == method), None)
    return defaults(entry.module, entry.attr) if entry else {}


def defaults(module: str, name: str) -> dict[str, Any]:
    """Constant defaults of a class's constructor; settings that it hands on have those of its base class.

    `without=(…)` in a decorator of the constructor names settings of the base class that it does not take.
    """
    found: dict[str, Any] = {}
    refused: set[str] = set()
    for cls in _lineage(module, name):
        own, dropped, hands_on = _own_defaults(cls)
        found = {**{key: value for key, value in own.items() if key not in refused}, **found}
        refused |= dropped
        if not hands_on:
            break
    return found


def _own_defaults(cls: ast.ClassDef) -> tuple[dict[str, Any], set[str], bool]:
    """The defaults that a class sets, those of its base that it refuses, and whether it takes any of its base's."""
    own: dict[str, Any] = {}
    dropped: set[str] = set()
    hands_on = True
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            own = {a.arg: d.value for a, d in pairs if isinstance(d, ast.Constant)}
            hands_on = node.args.kwarg is not None
            calls = [call for call in node.decorator_list if isinstance(call, ast.Call)]
            words = [word for call in calls for word in call.keywords if word.arg == "without"]
            dropped = {name for word in words for name in ast.literal_eval(word.value)}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__init__":
            words = node.value.keywords if isinstance(node.value, ast.Call) else []
            own = {w.arg: w.value.value for w in words if w.arg and isinstance(w.value, ast.Constant)}
    return own, dropped, hands_on


def _lineage(module: str, name: str) -> Iterator[ast.ClassDef]:
    """A class and its first base classes, as far as their source is found."""
    while name:
        tree = _tree(module)
        cls = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)
        if cls is None:
            return
        yield cls
        name = ast.unparse(cls.bases[0]) if cls.bases else ""
        module = _origin(tree, module, name)


def _origin(tree: ast.Module, module: str, name: str) -> str:
    """The module that a name was imported from; without an import, the same module."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            package = module.split(".")[: -node.level] if node.level else []
            return ".".join([*package, *([node.module] if node.module else [])])
    return module
