"""Makes a submission from a run folder: packs the run and fills in what the run knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from tta_bench import plugins
from tta_bench.board.review import Review
from tta_bench.board.rows import check_division
from tta_bench.board.submission import DEFAULTS, FILE, RUN, TODO, Entry, Package, Who, write_entry
from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.packed.pack import pack
from tta_bench.papers.baseline import BASELINE
from tta_bench.records.store import Store
from tta_bench.suites import suite as suites

LINK = "https://TODO"


def make(folder: Path, out: Path, methods: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Path]:
    """Write `out`/run.zip and `out`/submission.yaml; refuses a folder that exists. Source is always part of it."""
    if out.exists():
        raise UserError(f"--out {out}: exists already: choose a new folder")
    store = Store.open(folder)
    entry = draft(store, out.absolute().name, methods)
    pack(folder, out / RUN, with_source(store, methods), seeds)
    write_entry(entry, out / FILE)
    return [out / FILE, out / RUN]


def with_source(store: Store, methods: Sequence[str]) -> list[str]:
    """The rows to pack: these and Source; none stands for all."""
    sources = [record.label for record in store.records() if record.cell.spec.method == BASELINE]
    return list(dict.fromkeys([*sources, *methods])) if methods else []


def draft(store: Store, name: str, methods: Sequence[str] = ()) -> Entry:
    """An entry with what a run knows: its rows' settings, its division, and the package of its methods if installed."""
    suite = suites.load(found) if (found := store.read_manifest().suite) in suites.names() else None
    ruled = {**suite.methods, **suite.other_methods} if suite else {}
    adapted = [record for record in store.records() if record.cell.spec.method != BASELINE]
    rows = {record.label: record for record in adapted if not methods or record.label in methods}
    owners = {plugins.group("method").owner(record.cell.spec.method) for record in rows.values()}
    package: Package | Literal["built-in"] = Package(TODO, TODO, LINK)
    if owners == {plugins.OWN}:
        package = "built-in"
    elif len(owners) == 1 and (owner := owners.pop()):
        package = Package(owner, _version(owner), LINK)
    content = {
        "id": name,
        "title": f"{TODO}: one sentence on what is new",
        "who": vars(Who(TODO, LINK)),
        "package": package if package == "built-in" else vars(package),
        "division": "closed",
        "chosen_on": [f"{TODO}: the data that settings were chosen on, or {DEFAULTS}"],
        "date": datetime.now(timezone.utc).date().isoformat(),
        "settings": {label: record.cell.own_settings for label, record in rows.items() if label not in ruled},
    }
    entry = validate.read(Entry, content, "--out")
    review = Review(name)
    if suite:
        check_division(entry, list(rows.values()), suite, review)
    return replace(entry, division="open") if review.problems else entry


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return TODO
