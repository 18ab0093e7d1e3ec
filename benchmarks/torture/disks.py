"""A disk that fills up, runs out of inodes, or turns read-only in the middle of a run. Needs root, for tmpfs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.torture.scene import CELLS, Scene, predictions


def bad_disks(scene: Scene) -> dict[str, Any]:
    """Run on each bad disk, mend the disk, and run again."""
    figures = {"disks": 0, "tracebacks": 0, "cells lost": 0, "damaged or other results": 0, "runs that went on": 0}
    sizes = [("size=16k", "size=64m"), ("size=64k", "size=64m"), ("size=128k", "size=64m")]
    inodes = [(f"nr_inodes={count}", "nr_inodes=10000") for count in (4, 12, 24)]
    for bad, good in (*sizes, *inodes, ("read-only", "rw")):
        figures["disks"] += 1
        with disk(scene.home / "disk", "size=64m" if bad == "read-only" else bad) as place:
            out = place / "run"
            process = scene.start(out, pipe=True)
            if bad == "read-only":
                while not list(out.glob("cells/*.json")) and process.poll() is None:
                    time.sleep(0.05)
                make_read_only(place)
            _, shown = process.communicate()
            figures["tracebacks"] += "Traceback" in shown or process.returncode == 0
            before = set(predictions(out))
            figures["damaged or other results"] += len(scene.wrong(out))
            mount("-o", f"remount,{good}", str(place))
            ended = scene.start(out).wait()
            figures["cells lost"] += len(before - set(predictions(out)))
            figures["damaged or other results"] += len(scene.wrong(out))
            figures["runs that went on"] += ended == 0 and len(predictions(out)) == CELLS
    return figures


@contextmanager
def disk(place: Path, options: str) -> Iterator[Path]:
    """A small disk in memory."""
    place.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", options, "tmpfs", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def make_read_only(place: Path) -> None:
    """Refused while a file is open for writing, so it may take some tries."""
    for _ in range(1000):
        if subprocess.run(["mount", "-o", "remount,ro", str(place)], capture_output=True).returncode == 0:
            return
        time.sleep(0.003)
    raise RuntimeError(f"{place} is never idle")


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)
