"""A run on an engine, from the checks to the records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tta_bench.engines import Options, engine_class, engines
from tta_bench.engines.coordinate import Coordinator
from tta_bench.engines.job import JobFolder
from tta_bench.engines.tickets import Hints, identity
from tta_bench.engines.watched import Lost
from tta_bench.errors import UserError, require
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.registry import installed
from tta_bench.runs.launch import Launch
from tta_bench.runs.listing import Watcher, finished, is_finished
from tta_bench.runs.site import Site

OPTIONS = {"gpus": "--gpus", "submit": "--slurm", "gpus_per_cell": "--gpus-per-cell", "address": "=ADDRESS"}


class Session:
    """One command's use of an engine."""

    def __init__(self, name: str, options: Options, retries: int = 2) -> None:
        self.name, _, address = name.partition("=")
        options = replace(options, address=address) if address else options
        cls = engine_class(self.name)
        for field, option in OPTIONS.items():
            if getattr(options, field) and field not in cls.accepts:
                raise UserError(f"{option} does not apply to --on {self.name}{_home(field)}")
        self.engine = cls(options)
        self.retries = retries
        self._hints = Hints()

    def check(self, requests: list[CellSpec], site: Site) -> None:
        """Refuse what cannot run; for `launch`."""
        require("torch")  # a worker that cannot import it would only be seen to die
        for spec in requests:
            if spec.method in installed().given:
                raise UserError(
                    f"method '{spec.method}' is a class of this process, which workers cannot import: "
                    "package it (docs/methods.md), or run without on= and jobs="
                )
        self._hints = self.engine.check(requests, site)

    def run(self, ready: Launch, watcher: Watcher) -> tuple[list[Record], list[Lost]]:
        """Run what is left; returns the records of all requests in their order, and the cells that were lost."""
        left, found = self._left(ready, watcher)
        made, lost = self._coordinator(ready, watcher).run(left) if left else ({}, [])
        found |= made
        return [found[s.digest].labelled(s.label) for s in ready.requests if s.digest in found], lost

    def detach(self, ready: Launch) -> JobFolder | None:
        """Submit what is left and leave it alone; None if nothing is left."""
        left, _ = self._left(ready, Watcher())
        return self._coordinator(ready, Watcher()).detach(left) if left else None

    def _left(self, ready: Launch, watcher: Watcher) -> tuple[Sequence[CellSpec], dict[str, Record]]:
        found = finished(ready.requests, ready.site, ready.store) | self._found_by_workers(ready)
        for spec in ready.requests:
            if spec.digest in found:
                watcher.on_record(found[spec.digest].labelled(spec.label), is_new=False)
        return [spec for spec in ready.requests if spec.digest not in found], found

    def _found_by_workers(self, ready: Launch) -> dict[str, Record]:
        """Finished cells of earlier jobs on other machines, whose files and devices are not this machine's."""
        slugs: dict[str, str] = {}
        for job in JobFolder.all(ready.store) if self._hints.expected else ():
            if (job.handle["engine"], job.handle.get("device")) == (self.name, ready.site.device):
                slugs |= {digest: slug for life in job.lives() for digest, slug in life.slugs.items()}
        found = {}
        for digest, expected in self._hints.expected.items():
            record = ready.store.find_slug(slugs[digest]) if digest in slugs else None
            if record and identity(record.cell).key == expected.key and is_finished(record, ready.store):
                found[digest] = record
        return found

    def _coordinator(self, ready: Launch, watcher: Watcher) -> Coordinator:
        return Coordinator(self.engine, self.name, ready.store, ready.site, self._hints, watcher, self.retries)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *failure: object) -> None:
        self.engine.close()


def _home(field: str) -> str:
    """Which engines an option is for."""
    found = []
    for name in engines().names():
        with suppress(UserError):  # an engine of a broken package
            if field in engine_class(name).accepts:
                found.append(name)
    return f": use --on {' or '.join(found)}" if found else ""
