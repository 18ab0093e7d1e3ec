"""What a worker says about itself, in one small file that it alone writes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from tta_bench.engines.base import ENDED, UNKNOWN, State
from tta_bench.errors import RunStopped
from tta_bench.files import open_own, read_whole
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.runs.watcher import Watcher

FINISHED, STOPPED, REFUSED = "finished", "was stopped", "refused: "  # why a worker has ended
EVERY = 1.0  # seconds between notes about the progress of a cell
SIGN = 60.0  # seconds between signs of life
SILENT = 300.0  # seconds after which a worker that its engine knows nothing about counts as dead
MOST_WARNINGS = 50


@dataclass(frozen=True)
class Life:
    """A worker's state."""

    host: str = ""
    pid: int = 0
    at: float = 0.0  # when it said this, in seconds since 1970; 0: it has not started
    spec: str = ""  # digest of the cell that it runs now
    since: float = 0.0  # when that cell started
    images: int = 0
    of: int = 0
    accuracy: float = 0.0
    done: int = 0  # cells that it has run
    warnings: list[str] = field(default_factory=list)
    exit: str = ""  # why it has ended

    @classmethod
    def read(cls, path: Path, before: Life | None = None) -> Life:
        """What a worker's file says; `before` if it cannot be read, or is just being written."""
        try:
            line = read_whole(path).partition(b"\n")[0]
            return msgspec.json.decode(line, type=cls)
        except (OSError, msgspec.MsgspecError, RecursionError):
            return before or cls()

    def is_over(self, state: State) -> bool:
        """Whether the worker has ended, or is silent and its engine does not know about it any more."""
        is_silent = bool(self.at) and time.time() - self.at > SILENT
        return bool(self.exit) or state.word == ENDED or (state.word == UNKNOWN and is_silent)


class Sign(Watcher):
    """The file of this worker, written as it works."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._life = Life(host=socket.gethostname(), pid=os.getpid())
        self._lock = threading.Lock()
        self._shown = 0.0

    def show(self, **changes: Any) -> None:
        """Note changes. RunStopped if the disk is full or the folder cannot be written."""
        with self._lock:
            self._life = replace(self._life, at=round(time.time(), 2), **changes)
            content = msgspec.json.encode(self._life) + b"\n"
            try:
                # In place, not renamed: other hosts see at once what is in a closed file with a name that they know.
                with open_own(self._path) as file:
                    file.write(content)
                    file.truncate()
            except OSError as error:
                raise RunStopped(f"{self._path} cannot be written ({error.strerror})") from error

    def on_start(self, spec: CellSpec, images: int) -> None:
        self.show(spec=spec.digest, since=time.time(), images=0, of=images, accuracy=0.0)

    def on_cache(self, task: str, done: int, total: int) -> None:
        self.on_batch(0, 0.0)

    def on_batch(self, images: int, accuracy: float) -> None:
        if time.monotonic() - self._shown > EVERY:
            self._shown = time.monotonic()
            self.show(images=images, accuracy=round(accuracy, 4))

    def on_warning(self, text: str) -> None:
        self.show(warnings=[*self._life.warnings, text][-MOST_WARNINGS:])

    def on_record(self, record: Record, is_new: bool) -> None:
        self.show(spec="", done=self._life.done + is_new)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Give a sign of life every minute during the block."""
        self.show()
        is_over = threading.Event()

        def live() -> None:
            while not is_over.wait(SIGN):
                with suppress(RunStopped):  # the worker itself will notice
                    self.show()

        threading.Thread(target=live, daemon=True).start()
        try:
            yield
        finally:
            is_over.set()
