"""What a worker does, line by line: one writer, many readers, on any shared file system."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tta_bench.errors import RunStopped
from tta_bench.files import open_plain

FINISHED, STOPPED, REFUSED = "finished", "was stopped", "refused: "  # why a worker has ended
ALIVE = 60.0  # seconds between signs of life
EVERY = 1.0  # seconds between lines about the progress of a cell

# What the lines of each event hold, besides their time.
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "worker": {"host": str, "pid": int},
    "take": {"spec": str},
    "start": {"spec": str, "images": int},
    "batch": {"images": int, "accuracy": (int, float)},
    "end": {"spec": str, "slug": str, "status": str, "new": bool},
    "leave": {"spec": str, "slug": str, "key": str},
    "refuse": {"spec": str, "line": str},
    "warning": {"text": str},
    "exit": {"why": str},
    "alive": {},
}
LARGEST = 1e15  # of a number in a journal; times and counts are far below


class Journal:
    """The journal of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = 0.0

    def write(self, event: str, **content: Any) -> None:
        """Add a line. RunStopped if the disk is full or the folder cannot be written."""
        line = json.dumps({"at": round(time.time(), 2), "event": event, **content})
        try:
            # Opened for each line: other hosts see what is in a closed file.
            with self._path.open("a") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise RunStopped(f"{self._path} cannot be written ({error.strerror})") from error

    def progress(self, images: int, accuracy: float) -> None:
        """Write how far the current cell is, now and then."""
        if time.monotonic() - self._last > EVERY:
            self._last = time.monotonic()
            self.write("batch", images=images, accuracy=round(accuracy, 4))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Write the first line, and during the block a sign of life every minute."""
        self.write("worker", host=socket.gethostname(), pid=os.getpid())
        is_over = threading.Event()

        def live() -> None:
            while not is_over.wait(ALIVE):
                with suppress(RunStopped):  # the worker itself will notice
                    self.write("alive")

        threading.Thread(target=live, daemon=True).start()
        try:
            yield
        finally:
            is_over.set()


@dataclass
class Life:
    """What a journal says about its worker so far."""

    path: Path
    host: str = ""
    pid: int = 0
    spec: str = ""  # digest of the cell that it runs now
    since: float = 0.0  # when that cell started, in seconds since 1970
    images: int = 0
    of: int = 0
    accuracy: float = 0.0
    ended: dict[str, str] = field(default_factory=dict)  # status of records that it has made or found, by spec
    slugs: dict[str, str] = field(default_factory=dict)  # of these records
    refused: dict[str, str] = field(default_factory=dict)  # why it may not run a cell, by spec
    held: dict[str, tuple[str, str]] = field(default_factory=dict)  # slug and key of cells that others run, by spec
    seconds: dict[str, float] = field(default_factory=dict)  # how long its own cells took, by spec
    at: float = 0.0  # of the last line
    exit: str = ""  # why it has ended
    _offset: int = 0

    def follow(self) -> list[dict[str, Any]]:
        """Read the lines since the last call. A pipe or a device in a stranger's folder raises UserError."""
        try:
            with open_plain(self.path) as file:
                file.seek(self._offset)
                content = file.read()
        except OSError:
            return []
        whole = content[: content.rfind(b"\n") + 1]  # a line may be incomplete
        self._offset += len(whole)
        lines = [line for line in map(_parsed, whole.splitlines()) if line]
        for line in lines:
            self._take(line)
        return lines

    def forget(self) -> None:
        """Drop what is known about past cells: of 11,250 it is 5 MB, and many read the same journals."""
        for past in (self.ended, self.slugs, self.refused, self.held, self.seconds):
            past.clear()

    def _take(self, line: dict[str, Any]) -> None:
        self.at = float(line.get("at", 0.0))
        match line["event"]:
            case "worker":
                # A scheduler may start a worker again after its node was lost: its journal then has a second life.
                self.host, self.pid = str(line.get("host")), int(line.get("pid", 0))
                self.spec = self.exit = ""
            case "take":
                self.spec, self.since, self.images, self.of = str(line["spec"]), self.at, 0, 0
            case "start":
                self.of = int(line["images"])
            case "batch":
                self.images, self.accuracy = int(line["images"]), float(line["accuracy"])
            case "end" | "leave" | "refuse":
                self._drop(line)
            case "exit":
                self.exit = str(line["why"])

    def _drop(self, line: dict[str, Any]) -> None:
        """The worker is done with a cell. Two of its lives may write at once, if its node was only thought lost."""
        digest = str(line["spec"])
        is_current = digest == self.spec
        match line["event"]:
            case "end":
                self.ended[digest], self.slugs[digest] = str(line["status"]), str(line["slug"])
                if line["new"] and is_current:
                    self.seconds[digest] = self.at - self.since
            case "leave":
                self.held[digest] = str(line["slug"]), str(line["key"])
            case "refuse":
                self.refused[digest] = str(line["line"])
        if is_current:
            self.spec = ""


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A line's content; None for a line that a crash left damaged, or that no worker writes."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(event := found.get("event"), str):
        return None
    expected = {"at": (int, float), **FIELDS.get(event, {})}
    is_whole = all(isinstance(found.get(name), kind) for name, kind in expected.items())
    numbers = [value for value in found.values() if isinstance(value, (int, float))]
    return found if is_whole and all(abs(number) < LARGEST for number in numbers) else None
