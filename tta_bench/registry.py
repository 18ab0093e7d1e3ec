"""Finds methods through the entry-point group `tta_bench.methods` and builds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tta_bench import plugins, settings, static_facts
from tta_bench.errors import MissingPackage, UserError, needs_packages, third_party
from tta_bench.identity.code import base_modules, class_hash, code_hash, is_outdated, loaded_hash, source_file
from tta_bench.plugins import NAME, Group

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tta_bench.method import Method


@dataclass(frozen=True)
class Registry(Group):
    """The installed methods, and the classes registered with `add`."""

    noun: str = "method"
    given: dict[str, type[Method]] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted({*self.claims, *self.given})

    def require(self, name: str) -> None:
        """Refuse a name that no package provides or that two packages claim; imports nothing."""
        if name not in self.given:
            self.entry(name)

    def is_built_in(self, name: str) -> bool:
        """Whether a method is one of tta-bench's own."""
        return name not in self.given and self.owner(name) == plugins.OWN

    def code(self, name: str) -> str:
        """A hash of a method's code; does not import installed methods."""
        if name not in self.given:
            return code_hash(self.entry(name).module, self.packages())
        cls = self.given[name]
        in_file = cls.__module__ != "__main__" and source_file(cls.__module__) is not None
        if not in_file:
            return class_hash(cls, self.packages())
        if is_outdated(cls):
            raise UserError(
                f"method '{name}': {cls.__module__} was reloaded since: import {cls.__name__} from it again"
            )
        roots = self.packages() | {module.partition(".")[0] for module in base_modules(cls)}
        return loaded_hash(cls.__module__, roots)

    def load(self, name: str) -> type[Method]:
        """Import the class behind a name; any exception becomes a one-line UserError."""
        with needs_packages():
            from tta_bench.method import Method

        if name in self.given:
            return self.given[name]
        cls: type[Method] = self.load_class(name, Method)
        return cls


@cache
def installed() -> Registry:
    """The registry of this Python environment; read once, imports no method."""
    return Registry(claims=plugins.claims("method"))


def add(name: str, cls: type[Method]) -> None:
    """Register a class under a name in this process, to try a method before packaging it."""
    from tta_bench.method import Method

    registry = installed()
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise UserError(f"method '{name}': expected a subclass of tta_bench.Method, got {cls!r}")
    if name in registry.claims:
        raise UserError(f"method '{name}' is installed already, by {registry.owner(name)}: choose another name")
    if not NAME.fullmatch(name):
        raise UserError(f"method '{name}': its name may have letters, digits, '-', '_' and '.' only")
    registry.given[name] = cls


def build_method(
    method: str | type[Method],
    model: nn.Module,
    *,
    num_classes: int,
    batch_size: int = 64,
    params: Mapping[str, Any] | None = None,
    initial_state: Mapping[str, Tensor] | None = None,
) -> Method:
    """Build a method on a model, ready for `prepare` (if it needs source data) and `adapt`.

    `method` is a registered name or a class. `params` are its own keyword arguments. `initial_state` sets adapted
    tensors by name before the method takes the snapshot that `reset` returns to.
    """
    name, cls = (method, installed().load(method)) if isinstance(method, str) else (method.__name__, method)
    params = dict(params or {})
    settings.check(name, cls, params)
    with third_party(f"method '{name}' cannot be built"):
        try:
            built = cls(model, num_classes=num_classes, batch_size=batch_size, **params)
        except (TypeError, ValueError) as error:
            raise UserError(f"method '{name}': {error}") from error
    built.load_adapted_state(initial_state or {})
    built.remember()
    return built


def describe(names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of `tta-bench list methods`; a method that cannot be imported gets a row with its error."""
    rows: list[dict[str, Any]] = []
    for name in names:
        try:
            cls = _facts(name)
        except UserError as error:
            rows.append({"name": name, "error": str(error)})
            continue
        rows.append(
            {
                "name": name,
                "idea": (cls.__doc__ or "").strip().partition("\n")[0],
                "paper": cls.paper,
                "kind": cls.kind,
                "adapts": cls.adapts or cls.kind,
                "needs": ", ".join(cls.needs or (("source images",) if cls.needs_source else ())),
                "batch_size": cls.published_batch_size,
                "score_point": cls.score_point,
                "passes": cls.passes,
                "from": installed().owner(name),
            }
        )
    return rows


def _facts(name: str) -> Any:
    """A method's class, or without torch an object with the constants of that class."""
    try:
        return installed().load(name)
    except MissingPackage:
        entry = installed().entry(name)
        base = static_facts.constants("tta_bench.method", "Method")
        return SimpleNamespace(**{**base, **static_facts.constants(entry.module, entry.attr)})
