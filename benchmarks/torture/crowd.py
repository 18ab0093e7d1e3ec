"""Several processes on one folder, and single flipped bits."""

from __future__ import annotations

import random
import shutil
from typing import Any

from benchmarks.torture.scene import CELLS, Scene, predictions
from tta_bench.errors import UserError
from tta_bench.report.runs import Runs


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
    """Flip single bits in records and predictions: a table made from them must be refused, naming the file."""
    chance, out = random.Random(seed), scene.home / "flipped"
    shutil.copytree(scene.home / "reference", out)
    files = [*sorted((out / "cells").glob("*.json")), *sorted((out / "cells").glob("*.npy"))]
    silent = unnamed = 0
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
        file.write_bytes(whole)
    return {"flipped bits": count, "unnoticed": silent, "noticed without the file's name": unnamed}
