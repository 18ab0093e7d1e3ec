"""The run folder as a queue: what has no record and no living claim is to be done."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from tta_bench import gpus
from tta_bench.engines.job import Entry
from tta_bench.errors import UserError
from tta_bench.records.reading import read_record
from tta_bench.records.record import Record
from tta_bench.records.store import Store

REST = 20  # listing the folder may take this part of the time: a busy network disk needs seconds for 20,000 files


class Queue:
    """Cells in the order in which they are taken, and what the run folder says about them.

    A record made before the job, which failed or is damaged, does not count (`Entry.before`). If no device was asked
    for, a record of any device does.
    """

    def __init__(self, store: Store, cells: Iterable[Entry], device: str, retries: int = 2) -> None:
        self.left = {entry.spec.digest: entry for entry in cells}
        self.ended: dict[str, Record] = {}
        self.store = store
        self.retries = retries
        self._device = "" if device == "auto" else gpus.recorded(device)
        self._entries: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.left.values():
            self._entries[entry.identity].append(entry)
        self._seen: set[str] = set()  # names of records that need not be read again
        self._rest_until = 0.0

    def look(self, *, now: bool = True) -> list[tuple[Entry, Record]]:
        """Read the records that are new since the last call; returns those that end a cell."""
        start = time.monotonic()
        if not now and start < self._rest_until:
            return []
        found = []
        for name in sorted(set(self.store.record_names()) - self._seen):
            with suppress(UserError):  # damaged: the worker that runs its cell reports it
                found += self._take(read_record(self.store.cells / name), name)
        self._rest_until = time.monotonic() + REST * (time.monotonic() - start)
        return found

    def next(self, skip: int = 0) -> Entry | None:
        """The next cell that nobody runs, or one of the `skip` after it; None if there is none."""
        self.look()
        free = (entry for entry, may_try in self.idle() if may_try)
        return next(iter(list(islice(free, skip + 1))[-1:]), None)

    def idle(self) -> Iterator[tuple[Entry, bool]]:
        """Cells that nobody runs, and whether each may be tried: not if it has ended too many workers."""
        for entry in list(self.left.values()):
            if not self.store.is_claimed(entry.identity):
                yield entry, len(self.store.tries(entry.identity)) <= self.retries

    def drop(self, entry: Entry) -> None:
        """Leave a cell alone from now on."""
        self.left.pop(entry.spec.digest, None)

    def forget_tries(self) -> None:
        """Remove the notes about cells without a record."""
        for identity, entries in self._entries.items():
            if any(entry.spec.digest not in self.ended for entry in entries):
                self.store.forget_tries(identity)

    def _take(self, record: Record, name: str) -> list[tuple[Entry, Record]]:
        if self._device and record.cell.found.device != self._device:
            self._seen.add(name)
            return []
        entries = [entry for entry in self._entries.get(record.cell.identity, ()) if entry.spec.digest in self.left]
        if any(entry.before == record.finished_at for entry in entries):
            return []  # it will be replaced: look again
        self._seen.add(name)
        for entry in entries:
            del self.left[entry.spec.digest]
            self.ended[entry.spec.digest] = record
        return [(entry, record) for entry in entries]
