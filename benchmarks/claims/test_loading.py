"""The speed of loading images from disk: 2,000 photo-like JPEGs of 224 px.

Targets: the loader takes at most 1.3 times the CPU time of bare Pillow decoding, and cached reads are at least ten
times as fast as decoding. All ways take turns on the same images in one process, so that a noisy machine slows them
alike; figures are medians of the rounds. CPU time includes workers: on a shared machine, wall time depends on who else
is running. Two workers are compared with two bare processes, since cores may share parts, and without their start and
end, which have their own row: a task has 50,000 images. Their target is for bytes, since floats are made on the
device; the other rows also make floats, on this CPU.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_sample_images

from tta_bench.data.cache import CachedImages
from tta_bench.data.images import ImageSet
from tta_bench.data.loading import batches, read_ahead
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.transform import Transform

CPU = torch.device("cpu")
IMAGES, ROUNDS, BATCH = 2000, 5, 50
FEW = BATCH  # for the slow model

Chosen = NDArray[np.int64]


@dataclass
class Way:
    """One way to load images; measures seconds per image: wall time and CPU time."""

    run: Callable[[Chosen], object]
    images: int = IMAGES // ROUNDS
    start: str = ""  # the way whose time is subtracted from this one's
    against: str = "bare"
    seconds: list[tuple[float, float]] = field(default_factory=list)

    def measure(self, chosen: Chosen) -> None:
        wall, processors = time.perf_counter(), processor_seconds()
        self.run(chosen[: self.images])
        took = time.perf_counter() - wall, processor_seconds() - processors
        self.seconds.append((took[0] / self.images, took[1] / self.images))

    def without(self, start: Way) -> list[tuple[float, float]]:
        share = start.images / self.images
        pairs = zip(self.seconds, start.seconds, strict=True)
        return [(a[0] - share * b[0], a[1] - share * b[1]) for a, b in pairs]


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> FolderImages:
    """Noisy crops of two photographs, as files of about 20 kB."""
    folder, chance = tmp_path_factory.mktemp("jpegs"), np.random.default_rng(0)
    photos = load_sample_images().images
    ids = [f"{i:04d}.JPEG" for i in range(IMAGES)]
    for i, name in enumerate(ids):
        y, x = chance.integers(0, 427 - 224), chance.integers(0, 640 - 224)
        crop = photos[i % 2][y : y + 224, x : x + 224] + chance.normal(0, 6, (224, 224, 3))
        Image.fromarray(crop.clip(0, 255).astype(np.uint8)).save(folder / name, quality=88)
    return FolderImages(folder, ids, np.zeros(IMAGES, dtype=np.int64), Transform(224, 224))


def decode(paths: list[Path]) -> None:
    for path in paths:
        with Image.open(path) as image:
            np.asarray(image.convert("RGB"))


def decode_in_two(paths: list[Path]) -> None:
    children = [get_context("fork").Process(target=decode, args=(paths[i::2],)) for i in (0, 1)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def load(images: ImageSet, chosen: Chosen, size: int = BATCH, workers: int = 0, model: Callable = len) -> None:  # type: ignore[type-arg]
    plan = [chosen[i : i + size] for i in range(0, len(chosen), size)]
    with torch.no_grad():
        for batch in batches(images, plan, CPU, workers=workers):
            model(batch)


def load_bytes(images: ImageSet, chosen: Chosen) -> None:
    for batch in read_ahead(images, np.split(chosen, len(chosen) // BATCH), workers=2):
        len(batch)


def read_cached(cached: CachedImages, chosen: Chosen) -> None:
    for part in np.split(chosen, len(chosen) // BATCH):
        cached.read(part)  # and released, as in a run: keeping batches would measure memory allocation


def make_ways(images: FolderImages, cached: CachedImages) -> dict[str, Way]:
    files = np.array(images.files, dtype=object)
    model = timm.create_model("vit_tiny_patch16_224").eval()
    return {
        "bare": Way(lambda chosen: decode(files[chosen].tolist()), IMAGES),
        "loader": Way(lambda chosen: load(images, chosen), IMAGES),
        "start and end of 2 processes": Way(lambda chosen: decode_in_two(files[chosen].tolist()), 2),
        "bare, 2 processes": Way(
            lambda chosen: decode_in_two(files[chosen].tolist()), IMAGES, start="start and end of 2 processes"
        ),
        "start and end of 2 workers": Way(lambda chosen: load(images, chosen, 1, workers=2), 2),
        "loader, 2 workers, bytes": Way(
            lambda chosen: load_bytes(images, chosen),
            IMAGES,
            start="start and end of 2 workers",
            against="bare, 2 processes",
        ),
        "loader, 2 workers": Way(
            lambda chosen: load(images, chosen, workers=2),
            IMAGES,
            start="start and end of 2 workers",
            against="bare, 2 processes",
        ),
        "loader, 1 worker, and ViT-Tiny": Way(lambda chosen: load(images, chosen, FEW // 2, 1, model), FEW),
        "cached reads": Way(lambda chosen: read_cached(cached, chosen)),
        "loader on the cache": Way(lambda chosen: load(cached, chosen)),
    }


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forks while idle threads exist
def test_loading(images: FolderImages, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    cached = CachedImages(images, tmp_path, "bench", workers=2)
    cached.open()
    ways = make_ways(images, cached)
    order = np.random.default_rng(1).permutation(IMAGES)
    for turn in range(ROUNDS):
        for way in list(ways.values())[:: 1 if turn % 2 else -1]:
            way.measure(np.roll(order, turn * IMAGES // ROUNDS))

    times = {name: way.without(ways[way.start]) if way.start else way.seconds for name, way in ways.items()}
    ratios = {
        name: statistics.median(a[1] / b[1] for a, b in zip(times[name], times[way.against], strict=True))
        for name, way in ways.items()
    }
    size = statistics.mean(path.stat().st_size for path in images.files) / 1e3
    table = Table(title=f"{IMAGES} JPEGs of 224 px, {size:.0f} kB each; medians of {ROUNDS} rounds, one thread each")
    for heading in ("", "images/s", "images/s of a core", "time of a core", "as a multiple of"):
        table.add_column(heading, justify="right" if heading.endswith(("s", "core")) else "left")
    for name, way in ways.items():
        wall, of_core = (statistics.median(lap[i] for lap in times[name]) for i in (0, 1))
        if name.startswith("start"):
            table.add_row(name, f"{1e3 * wall * way.images:.0f} ms", "", f"{1e3 * of_core * way.images:.0f} ms")
        else:
            table.add_row(name, f"{1 / wall:,.0f}", f"{1 / of_core:,.0f}", f"{ratios[name]:.2f}", way.against)
    print()
    Console(width=120).print(table)
    assert ratios["loader"] <= 1.3
    assert ratios["loader, 2 workers, bytes"] <= 1.3
    assert ratios["cached reads"] <= 0.1
