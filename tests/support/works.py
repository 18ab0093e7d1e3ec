"""Binds requests for tests, as a run would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tta_bench.checked import validate
from tta_bench.isolation.host import Work, run_cell
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder
from tta_bench.runs.options import KNOWN, RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.spec import specs
from tta_bench.streams.scenarios import protocol
from tta_bench.suites import suite

CPU = Site(device="cpu")


def requests(suite_file: Path, **given: Any) -> list[CellSpec]:
    assert set(given) <= set(KNOWN), given
    return specs(suite.load(str(suite_file)), RunOptions.of(given))


def read_spec(content: object, where: str = "request") -> CellSpec:
    """What `CellSpec.to_json` wrote, as a worker reads and binds it."""
    spec = validate.read(CellSpec, content, where)
    protocol(spec)
    return spec


def works(suite_file: Path, site: Site = CPU, **given: Any) -> list[Work]:
    binder = Binder(site)
    return [binder.bind(spec) for spec in requests(suite_file, **given)]


def run_folder(folder: Path, suite_file: Path, **given: Any) -> Path:
    """A run folder with the cells of these options, run in this process."""
    store = Store.create(folder, suite.load(str(suite_file)).name)
    for work in works(suite_file, **given):
        store.save(*run_cell(work))
    return store.folder
