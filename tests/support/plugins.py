"""Third-party packages, as pip leaves them in site-packages, and `tta-bench` beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MINE = '''
import torch
from tta_bench import Method

class Mine(Method):
    """Averages each batch's logits into the next, just to be different."""
    paper = "nobody, 2026"
    adapts = "nothing"
    passes = "1 forward"

    def __init__(self, model, *, num_classes, batch_size=64, strength: float = 0.1):
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.model.eval()
        self.strength = strength
        self.forget()

    def forget(self):
        self.mean = torch.zeros(self.num_classes)

    @torch.no_grad()
    def adapt(self, batch):
        logits = self.model(batch) - self.strength * self.mean
        self.mean = logits.mean(0)
        return logits
'''


def install(folder: Path, package: str, entries: str, code: str, group: str = "methods") -> None:
    """What pip leaves in site-packages: a module and its metadata."""
    folder.mkdir(exist_ok=True)
    (folder / f"{package}.py").write_text(code)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tta_bench.{group}]\n{entries}\n")


def tta_bench(site: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tta_bench.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )
