"""A board for tests: submissions with packed runs that never ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.support.records import changed, keep, make_record, predict
from tta_bench.packed.pack import pack
from tta_bench.records.store import Store

TASKS = ("contrast", "fog", "snow")
IMAGES, BATCH = 400, 10
WHO = {"name": "Ada L.", "link": "https://example.org/ada"}
PACKAGE = {"name": "tta-mine", "version": "1.0", "link": "https://example.org/mine", "commit": "1a2b3c4"}


def make_run(folder: Path, rows: dict[str, float], *, suite: str = "s", seeds: int = 2, **changes: Any) -> Path:
    """A run folder with these rows and about these accuracies; whoever shares a label shares its predictions."""
    store = Store.create(folder, suite)
    for task_number, task in enumerate(TASKS):
        for seed in range(seeds):
            stream = np.random.default_rng([7, task_number, seed])
            order, hard = stream.permutation(IMAGES), stream.random(IMAGES)
            for number, (label, level) in enumerate(rows.items()):
                own = np.random.default_rng([sum(map(ord, label)), task_number, seed])
                noise = own.normal(0, 0.1, IMAGES) + 0.05 * np.sin(np.arange(IMAGES) / 60)
                method = label if label.isalnum() else "odd"
                record = make_record(method, suite=suite, task=task, seed=seed, ms=1.0 + number, **changes)
                record = changed(record, label=label, samples=IMAGES, batch_seconds=[0.01 + 0.01 * number] * 40)
                keep(store, record, predict(hard + noise < level, index=order, label=order % 5))
    return folder


def add_submission(board: Path, name: str, run: Path, **changes: Any) -> Path:
    """A submission with this run; `changes` are of its submission.yaml."""
    folder = board / name
    folder.mkdir(parents=True)
    content = {
        "id": name,
        "title": "Something new.",
        "who": WHO,
        "package": PACKAGE,
        "division": "closed",
        "chosen_on": ["defaults"],
        "date": "2026-11-01",
        **changes,
    }
    (folder / "submission.yaml").write_text(yaml.safe_dump(content))
    pack(run, folder / "run.zip")
    return folder
