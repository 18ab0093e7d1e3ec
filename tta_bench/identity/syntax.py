"""A module's syntax tree as text, without what changes no number: comments, docstrings, annotations, error messages."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Any

OWN = "tta_bench"

# Names that say only how long a method takes, and whom to cite.
SAY_ONLY = frozenset({"passes_per_image", "slower_than_source", "bibtex"})


def syntax(source: str, packages: Collection[str] = (OWN,)) -> str:
    """The syntax tree as text, without what changes no number; the same in every Python version."""
    return "".join(_dump(_RemoveProse(packages).visit(ast.parse(source)), []))


def for_type_checkers(node: ast.AST) -> bool:
    """Whether a node is a block that only a type checker reads."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _says_only(*targets: ast.expr) -> bool:
    return all(isinstance(target, ast.Name) and target.id in SAY_ONLY for target in targets)


class _RemoveProse(ast.NodeTransformer):
    """Removes docstrings, annotations of functions, error messages, times, citations and the folders of own modules."""

    def __init__(self, packages: Collection[str]) -> None:
        self.packages = packages

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if _says_only(*node.targets) else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return None if _says_only(node.target) else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return ast.Raise(exc=node.exc, cause=None)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(arg=node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.level or (node.module or "").partition(".")[0] in self.packages:
            return ast.ImportFrom(module="", names=node.names, level=0)
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if for_type_checkers(node) else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Remove a statement that is only text: a docstring of a module, class, function or attribute."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)


def _dump(node: Any, into: list[str]) -> list[str]:
    """Dump without empty fields and contexts: the output of `ast.dump` differs between Python versions."""
    if isinstance(node, ast.AST):
        into.append(f"{type(node).__name__}(")
        for name, value in ast.iter_fields(node):
            if name not in ("ctx", "type_comment", "kind") and value is not None and value != []:
                into.append(f"{name}=")
                _dump(value, into)
        into.append(")")
    elif isinstance(node, list):
        into.append("[")
        for item in node:
            _dump(item, into)
        into.append("]")
    else:
        into.append(f"{node!r},")
    return into
