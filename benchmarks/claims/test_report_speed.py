"""12 methods on 15 tasks with 3 seeds and 50,000 predictions each: `report` within 5 s, `compare` within 20 s.
20 methods on 50 tasks with 5 seeds and 100 predictions each, 5,000 cells: 4 s and 300 MB, and half of them half of it.
With 2,000 predictions each, 4 s and 300 MB, too.

Both run as a user starts them, in their own process. What counts is CPU time, the best of three: the machine may be
busy.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.support.records import changed, keep, make_record, predict
from tta_bench.records.predictions import Predictions
from tta_bench.records.store import Store
from tta_bench.suites import suite

METHODS, SEEDS, IMAGES, CLASSES, BATCH = 12, 3, 50_000, 1000, 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store like that of a run on ImageNet-C; methods differ in accuracy by half a point each."""
    home = tmp_path_factory.mktemp("run")
    shipped = suite.load("imagenet-c-5")
    store = Store.create(home, shipped.name)
    store.note_command(["made up"], shipped.tasks, [f"method{i}" for i in range(METHODS)])
    rng = np.random.default_rng(0)
    for task in shipped.tasks:
        for seed in range(SEEDS):
            order = rng.permutation(IMAGES)
            label = order // (IMAGES // CLASSES)
            luck = rng.random(IMAGES)
            for i in range(METHODS):
                right = 0.7 * luck + 0.3 * rng.random(IMAGES) < 0.5 + 0.005 * i
                predictions = Predictions(
                    index=order,
                    label=label,
                    prediction=np.where(right, label, rng.integers(CLASSES, size=IMAGES)),
                    task=np.zeros(IMAGES, np.int16),
                    in_top5=right,
                    confidence=rng.random(IMAGES, dtype=np.float32),
                    entropy=rng.random(IMAGES, dtype=np.float32),
                    brier=rng.random(IMAGES, dtype=np.float32),
                )
                changes = {"suite": shipped.name, "data": shipped.data, "batch_size": BATCH, "model": shipped.model}
                record = make_record(f"method{i}", task=task, seed=seed, **changes)
                batches = rng.random(-(-IMAGES // BATCH)).tolist()
                keep(store, changed(record, batch_seconds=batches), predictions)
    return home


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Stores of 2,500 and of 5,000 cells."""
    return make_many(tmp_path_factory.mktemp("half"), 25), make_many(tmp_path_factory.mktemp("all"), 50)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 5,000 cells with 2,000 predictions each."""
    return make_many(tmp_path_factory.mktemp("long"), 50, images=2000)


def make_many(home: Path, tasks: int, images: int = 100) -> Path:
    store, rng = Store.create(home, "s"), np.random.default_rng(0)
    names = [f"t{number}" for number in range(tasks)], ["source", *(f"m{number}" for number in range(1, 20))]
    store.note_command(["made up"], *names)
    for task, seed in product(names[0], range(5)):
        for number, method in enumerate(names[1]):
            right = rng.random(images) < 0.5 + 0.005 * number
            keep(store, make_record(method, task=task, seed=seed), predict(right, label=np.arange(images) % 10))
    return home


# Its own peak: what the system counts for a child includes the memory of the process that started it.
COMMAND = """
import re, sys
from tta_bench.cli.main import main
status = main(sys.argv[1:])
print("peak", re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(status)
"""


def seconds(*words: object) -> float:
    """The CPU time of the shortest of three runs of `tta-bench`."""
    return measured(*words)[0]


def measured(*words: object) -> tuple[float, float]:
    """The CPU time of the shortest of three runs of `tta-bench`, and their peak memory in MB."""
    found, peaks = [], []
    for _ in range(3):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-c", COMMAND, *map(str, words)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks.append(int(done.stderr.split()[-1]) / 1024)
        after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
        found.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall))
    print(f"\n{words[0]}: {min(found)[0]:.1f} s of work, {min(wall for _, wall in found):.1f} s on the wall")
    return min(found)[0], max(peaks)


COMMANDS = [["report", "--format", name] for name in ("md", "csv", "html")] + [["compare"]]


@pytest.mark.parametrize("words", COMMANDS)
def test_5000_cells_within_4_seconds(many: tuple[Path, Path], words: list[str]) -> None:
    half, whole = many
    more = ["--a", "m1", "--b", "m2"] if words == ["compare"] else []
    (first, _), (total, megabytes) = (measured(words[0], folder, *words[1:], *more) for folder in (half, whole))
    print(f"{first:.1f} s for 2,500 cells, {total:.1f} s for 5,000, {megabytes:.0f} MB")
    assert total <= 4
    assert total <= 2.2 * first, "twice the cells take twice as long"
    assert megabytes <= 300


@pytest.mark.parametrize("words", COMMANDS)
def test_5000_long_cells_within_4_seconds(long: Path, words: list[str]) -> None:
    more = ["--a", "m1", "--b", "m2"] if words == ["compare"] else []
    total, megabytes = measured(words[0], long, *words[1:], *more)
    print(f"{' '.join(words)}: {total:.1f} s, {megabytes:.0f} MB")
    assert total <= 4
    assert megabytes <= 300


def test_report_within_5_seconds(folder: Path) -> None:
    assert seconds("report", folder, "--format", "terminal,md,csv,latex,html", "--paper") <= 5


def test_compare_within_20_seconds(folder: Path) -> None:
    assert seconds("compare", folder, "--a", "method3", "--b", "method4") <= 20
