"""One command's workers: checked, started and supervised."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from tta_bench.checked.options import flag_of
from tta_bench.engines import engine_class, engines
from tta_bench.engines.costs import ordered
from tta_bench.engines.job import Entry, Job, JobFolder
from tta_bench.engines.queue import Queue
from tta_bench.engines.supervise import Lost, Supervisor
from tta_bench.errors import UserError
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.registry import installed
from tta_bench.runs.options import RunOptions
from tta_bench.runs.resume import is_finished
from tta_bench.runs.site import Site
from tta_bench.runs.watcher import Watcher


class Fleet:
    """The workers of one command, on an engine."""

    def __init__(self, options: RunOptions, *, forks: bool = False) -> None:
        self.name, _, address = (options.on or "local").partition("=")
        cls = engine_class(self.name)
        given = {name: getattr(options, name) for name in ("gpus", "slurm", "gpus_per_cell")} | {"address": address}
        for name, value in given.items():
            if value and name not in cls.accepts:
                flag = "=ADDRESS" if name == "address" else flag_of(name)
                raise UserError(f"{flag} does not apply to --on {self.name}{_home(name)}")
        self.engine = cls(options)
        self.engine.forks = forks
        self._retries = options.retries
        self._first = ""  # name of the job whose workers are started before it is written
        self._entries: list[Entry] = []

    def check(self, requests: list[CellSpec], site: Site, folder: Path) -> None:
        """Refuse what cannot run, and find out what each cell's identity must be on other machines."""
        for spec in requests:
            if spec.method in installed().given:
                raise UserError(
                    f"method '{spec.method}' is a class of this process, which workers cannot import: "
                    "package it (docs/methods.md), or run without on= and jobs="
                )
        job = JobFolder(Store(folder))
        self._first = job.name
        self.engine.warm_up(job, min(self.engine.jobs, len(requests)), site)
        from tta_bench.runs.bind import Binder

        # A login node often has no GPU: it checks on the CPU, and workers pick their own device.
        binder = Binder(site if self.engine.is_here else replace(site, device="cpu"))
        binder.refuse_unfit(requests)
        for spec in requests:
            cell = binder.bind(spec).cell
            self._entries.append(Entry(spec, 1.0, cell.identity, cell.hashes))

    def run(
        self, requests: list[CellSpec], site: Site, store: Store, watcher: Watcher
    ) -> tuple[list[Record], list[Lost]]:
        """Run what is left; returns the records of all requests in their order, and the cells that were lost."""
        queue, found, in_seconds = self._queue(site, store)
        for spec in requests:
            if spec.digest in found:
                watcher.on_record(found[spec.digest].labelled(spec.label), is_new=False)
        lost = self._supervisor(queue, site, watcher, in_seconds).run() if queue.left else []
        found |= queue.ended
        return [found[s.digest].labelled(s.label) for s in requests if s.digest in found], lost

    def detach(self, site: Site, store: Store) -> JobFolder | None:
        """Start workers for what is left and leave them alone; None if nothing is left."""
        queue, _, in_seconds = self._queue(site, store)
        if not queue.left:
            return None
        return self._supervisor(queue, site, Watcher(), in_seconds).submit(self.engine.jobs)

    def _queue(self, site: Site, store: Store) -> tuple[Queue, dict[str, Record], bool]:
        """What is left, and the records of finished cells. A record that failed or is damaged will be replaced."""
        there = Queue(store, self._entries, site.device)
        there.look()
        found = {digest: record for digest, record in there.ended.items() if is_finished(record, store)}
        old = {digest: record.finished_at for digest, record in there.ended.items() if digest not in found}
        left = [replace(e, before=old.get(e.spec.digest, "")) for e in self._entries if e.spec.digest not in found]
        cells, in_seconds = ordered(left, store.by_key().values())
        return Queue(store, cells, site.device, self._retries), found, in_seconds

    def _supervisor(self, queue: Queue, site: Site, watcher: Watcher, in_seconds: bool) -> Supervisor:
        job = Job(self.name, self.engine.jobs, asdict(site), (), self._retries, in_seconds)
        return Supervisor(self.engine, queue, job, watcher, self._first)

    def close(self) -> None:
        """Release workers that were started and not used."""
        self.engine.close()


def _home(field: str) -> str:
    """Which engines an option is for."""
    found = []
    for name in engines().names():
        with suppress(UserError):  # an engine of a broken package
            if field in engine_class(name).accepts:
                found.append(name)
    return f": use --on {' or '.join(found)}" if found else ""
