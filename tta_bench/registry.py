"""Finds methods by the entry-point group `tta_bench.methods` and builds them.

Built-in methods come the same way as a stranger's package, so nobody needs to fork anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from tta_bench import settings
from tta_bench.errors import UserError, did_you_mean
from tta_bench.identity import code_hash

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tta_bench.method import Method

GROUP = "tta_bench.methods"


@dataclass(frozen=True)
class Registry:
    """The methods that are installed here: claims by name, each with the packages that made it."""

    claims: Mapping[str, tuple[EntryPoint, ...]] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted(self.claims)

    def packages(self) -> frozenset[str]:
        """The packages that methods come from: one may build on another's code."""
        return frozenset(entry.module.partition(".")[0] for entries in self.claims.values() for entry in entries)

    def code(self, name: str) -> str:
        """A hash of the code behind a method, taken without importing it."""
        return code_hash(self.entry(name).module, self.packages())

    def entry(self, name: str) -> EntryPoint:
        """The one entry point behind a name, or an error that says why there is not exactly one."""
        if not self.claims:
            raise UserError("no methods registered: run `make demo`, or `pip install -e .` in the checkout")
        if name not in self.claims:
            raise UserError(f"unknown method '{name}'{did_you_mean(name, self.claims)}")
        first, *others = self.claims[name]
        if others:
            owners = " and ".join(_package(e) for e in (first, *others))
            raise UserError(f"method '{name}' is claimed by {owners}: uninstall one of them")
        if not re.fullmatch(r"[\w.-]+", name):  # it could not be said in --methods a,b or --set a.lr=1, nor be a file's
            raise UserError(
                f"method '{name}' of {_package(first)} cannot be used: "
                f"its name may have letters, digits, '-', '_' and '.' only"
            )
        return first

    def load(self, name: str) -> type[Method]:
        """Import the class behind a name; whatever its package raises becomes one line."""
        from tta_bench.method import Method

        entry = self.entry(name)
        try:
            cls = entry.load()
        except (Exception, SystemExit) as error:  # a stranger's module may raise anything
            raise UserError(
                f"method '{name}' of {_package(entry)} cannot be imported ({entry.value}): "
                f"{type(error).__name__}: {error}"
            ) from error
        if not (isinstance(cls, type) and issubclass(cls, Method)):
            raise UserError(f"method '{name}' of {_package(entry)}: {entry.value} is no tta_bench.Method class")
        return cls


@cache
def installed() -> Registry:
    """The registry of this Python environment; read once, imports no method."""
    claims: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        same = claims.get(entry.name, ())
        # An editable install may show its metadata twice (egg-info and dist-info): that is one claim.
        if all((e.value, _package(e)) != (entry.value, _package(entry)) for e in same):
            claims[entry.name] = (*same, entry)
    return Registry(claims)


def build_method(
    name: str,
    model: nn.Module,
    *,
    num_classes: int,
    batch_size: int = 64,
    params: Mapping[str, Any] | None = None,
    initial_state: Mapping[str, Tensor] | None = None,
) -> Method:
    """Build a registered method on a model, ready for `prepare` (where it needs source data) and `adapt`.

    `params` are the method's own keyword arguments. `initial_state` maps names of adapted tensors to values
    that are put in place before the method takes the snapshot that `reset` returns to.
    """
    cls = installed().load(name)
    params = dict(params or {})
    settings.check(name, cls, params)
    try:
        method = cls(model, num_classes=num_classes, batch_size=batch_size, **params)
    except UserError:
        raise
    except (TypeError, ValueError) as error:
        raise UserError(f"method '{name}': {error}") from error
    except (Exception, SystemExit) as error:  # a stranger's constructor may raise anything
        raise UserError(f"method '{name}' cannot be built: {type(error).__name__}: {error}") from error
    method.load_adapted_state(initial_state or {})
    method.remember()
    return method


def describe(names: Sequence[str]) -> list[dict[str, Any]]:
    """What `list methods` shows; a method that cannot be imported is a row with its error."""
    rows: list[dict[str, Any]] = []
    for name in names:
        try:
            cls = installed().load(name)
        except UserError as error:
            rows.append({"name": name, "error": str(error)})
            continue
        rows.append(
            {
                "name": name,
                "paper": cls.paper,
                "adapts": cls.adapts,
                "score_point": cls.score_point,
                "passes": cls.passes,
                "needs_source": cls.needs_source,
            }
        )
    return rows


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown package"
