"""Entry points: the methods, datasets, models and suites of installed packages.

Built-ins use the same entry points as third-party packages, so nobody needs a fork. Discovery reads metadata only;
a package is imported when one of its names is used, and a broken package does not affect the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tta_bench.errors import UserError, did_you_mean, needs_packages, third_party

OWN = "tta-bench"
NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class Group:
    """The names of one entry-point group, each with the entry points that claim it."""

    noun: str  # "method"; the group is called tta_bench.methods
    claims: Mapping[str, tuple[EntryPoint, ...]] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted(self.claims)

    def packages(self) -> frozenset[str]:
        """The top-level modules of the group's code: one package may build on another."""
        return frozenset(entry.module.partition(".")[0] for entries in self.claims.values() for entry in entries)

    def entry(self, name: str) -> EntryPoint:
        """The entry point of a name; UserError if there is none, or more than one."""
        if not self.claims:
            raise UserError(f"no {self.noun}s registered: run `make demo`, or `pip install -e .` in the checkout")
        if name not in self.claims:
            raise UserError(f"unknown {self.noun} '{name}'{did_you_mean(name, self.claims)}")
        first, *others = self.claims[name]
        if others:
            owners = " and ".join(package(e) for e in (first, *others))
            raise UserError(f"{self.noun} '{name}' is claimed by {owners}: uninstall one of them")
        if not NAME.fullmatch(name):  # it would break --methods a,b, --set a.lr=1 and file names
            raise UserError(
                f"{self.noun} '{name}' of {package(first)} cannot be used: "
                f"its name may have letters, digits, '-', '_' and '.' only"
            )
        return first

    def load_object(self, name: str) -> Any:
        """Import the object behind a name; any exception becomes a one-line UserError."""
        entry = self.entry(name)
        with (
            third_party(f"{self.noun} '{name}' of {package(entry)} cannot be imported ({entry.value})"),
            needs_packages(),
        ):
            return entry.load()

    def load_class(self, name: str, base: type) -> Any:
        """Import a class that must be a subclass of `base`."""
        found, entry = self.load_object(name), self.entry(name)
        if not (isinstance(found, type) and issubclass(found, base)):
            raise UserError(
                f"{self.noun} '{name}' of {package(entry)}: {entry.value} is not a subclass of "
                f"{base.__module__}.{base.__qualname__}"
            )
        return found

    def owner(self, name: str) -> str:
        """The package that provides a name."""
        return " and ".join(package(entry) for entry in self.claims.get(name, ()))


@cache
def group(noun: str) -> Group:
    """A group of this environment; read once, imports nothing that it names."""
    return Group(noun, claims(noun))


def claims(noun: str) -> dict[str, tuple[EntryPoint, ...]]:
    """All entry points of a group in this environment, by name."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in _all().select(group=f"tta_bench.{noun}s"):
        same = found.get(entry.name, ())
        # An editable install may list its metadata twice (egg-info and dist-info): count it once.
        if all((e.value, package(e)) != (entry.value, package(entry)) for e in same):
            found[entry.name] = (*same, entry)
    return found


def package(entry: EntryPoint) -> str:
    """The name of the installed package that an entry point comes from."""
    return entry.dist.name if entry.dist is not None else "an unknown package"


@cache
def _all() -> Any:
    return entry_points()
