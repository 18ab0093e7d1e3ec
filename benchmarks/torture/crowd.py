"""Several processes on one folder, and single flipped bits."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from benchmarks.torture.scene import CELLS, Scene, predictions
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.report.runs import Runs
from tta_bench.runs.resume import is_finished


def crowd(scene: Scene, processes: int = 4) -> dict[str, Any]:
    """Start processes at once on a fresh folder: each cell is run once."""
    out = scene.home / "crowd"
    started = [scene.start(out, in_process=False, pipe=True) for _ in range(processes)]
    shown = [process.communicate()[0] for process in started]
    ran = sum(line.startswith("[") for text in shown for line in text.splitlines())
    return {
        "processes": processes,
        "that failed": sum(process.returncode != 0 for process in started),
        "cells run": ran,
        "cells run twice": ran - CELLS,
        "cells missing": CELLS - len(predictions(out)),
        "other results": len(scene.wrong(out)),
    }


def flips(scene: Scene, count: int, seed: int = 0) -> dict[str, Any]:
    """Flip single bits in records and predictions.

    A table made from them must be refused, naming the file, and the same command must run that cell again.
    """
    chance, out = random.Random(seed), scene.home / "flipped"
    shutil.copytree(scene.home / "reference", out)
    files = [*sorted((out / "cells").glob("*.json")), *sorted((out / "cells").glob("*.npy"))]
    silent = unnamed = reused = 0
    for _ in range(count):
        file = chance.choice(files)
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        try:
            Runs([out])
            silent += 1
        except UserError as error:
            unnamed += str(file) not in str(error)
        reused += _is_reused(out, file)
        file.write_bytes(whole)
    return {
        "flipped bits": count,
        "unnoticed": silent,
        "noticed without the file's name": unnamed,
        "cells reused all the same": reused,
    }


def _is_reused(out: Path, file: Path) -> bool:
    """Whether the same command would leave this cell as it is, instead of moving it aside."""
    store, partner = Store(out), file.with_suffix(".npy" if file.suffix == ".json" else ".json")
    other = partner.read_bytes()
    moved = store.set_damaged_aside()
    found = {one.cell.slug: one for one in store.records()}.get(file.stem)
    for path in moved:
        path.unlink()
    partner.write_bytes(other)
    return found is not None and is_finished(found, store)
