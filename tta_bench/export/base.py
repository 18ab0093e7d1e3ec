"""The contract of a target, and the way from run folders to it."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from tta_bench import plugins
from tta_bench.errors import UserError
from tta_bench.export.content import Content, collect
from tta_bench.packed.address import Address
from tta_bench.plugins import Group
from tta_bench.report.choose import Filter
from tta_bench.report.runs import Runs
from tta_bench.report.write import check_folder


class Exporter(ABC):
    """Writes runs, settings, curves and tables for one tool, into a folder that is new or empty."""

    package: ClassVar[str]  # the module that it needs
    install: ClassVar[str]  # what `pip install` takes to get it
    then: ClassVar[str]  # the command that shows or sends the result; {out} is the folder

    @abstractmethod
    def write(self, content: Content, out: Path) -> None:
        """Write everything below `out`, which exists and is empty; sends nothing anywhere."""


@cache
def exporters() -> Group:
    """The installed targets; read once, imports none of them."""
    return Group("export target", plugins.claims("exporter"))


def exporter(name: str) -> Exporter:
    """A target by its name, if what it needs is installed."""
    cls: type[Exporter] = exporters().load_class(name, Exporter)
    if find_spec(cls.package) is None:
        raise UserError(f"--to {name} needs the package {cls.package}: pip install '{cls.install}'")
    return cls()


def export_runs(
    addresses: Sequence[Address], filters: Sequence[Filter], name: str, out: Path, metrics: Sequence[str] = ()
) -> Content:
    """Write the records of runs for a target; after an error, nothing of it is left."""
    target = exporter(name)
    check_folder(out)
    if out.is_dir() and any(out.iterdir()):
        raise UserError(f"--out {out}: is not empty, and an export replaces nothing: remove it, or pass another --out")
    runs = Runs(addresses)
    if not runs.records:
        raise UserError(f"{addresses[0]}: no records to export: run `tta-bench run` first")
    content = collect(runs, filters, metrics)
    was_there = out.is_dir()
    try:
        out.mkdir(parents=True, exist_ok=True)
        target.write(content, out.absolute())
    except BaseException as error:
        shutil.rmtree(out, ignore_errors=True)
        if was_there:
            out.mkdir(exist_ok=True)
        if isinstance(error, OSError):
            raise UserError(f"--out {out}: cannot be written ({error.strerror or error})") from error
        raise
    return content
