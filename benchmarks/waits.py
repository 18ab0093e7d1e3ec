"""Counts how often the host waits for the GPU within one `adapt`, for every method, on a simulated GPU.

python -m benchmarks.waits METHOD …    # how often, and at which lines
python -m benchmarks.waits --check     # is it what the table in docs/timing.md says?
python -m benchmarks.waits --write     # put it there
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from tests.support.checkout import ROOT
from tests.support.needed import needed
from tests.support.small import BATCHNORM_ONLY, small_resnet, small_vit, stream
from tta_bench import Method, build_method, registry
from tta_bench.measure.cost import CostCounter
from tta_bench.simulated import SimulatedGpus

PAGE = ROOT / "docs" / "timing.md"
MARKED = re.compile(r"(?<=<!-- python -m benchmarks.waits --write -->\n).*?(?=<!-- end -->)", re.DOTALL)
NAMES = [name for name in registry.installed().names() if name != "dda"]  # its waits are those of diffusers
BATCH, BATCHES, LAST = 8, 3, 3
# Large images in few patches: what depends on the size of images shows, and passes are quick. Of the models that these
# seeds draw, this one is sure of some images of each batch and unsure of others.
PIXELS, PATCH, SEED = 208, 104, 2
# Less work, and settings with which each part of a method has its turn within a few batches of eight images.
SETTINGS: dict[str, dict[str, Any]] = {
    "adacontrast": {"queue_size": 16, "warmup_samples": 8, "neighbours": 2},
    "cotta": {"augmentations": 2, "anchor_threshold": 2.0},
    "dept-g": {"queue_size": 16, "neighbours": 2},
    "deyo": {"plpd_threshold": -1.0},
    "dpal": {"entropy_threshold": 2.0},
    **{name: {"redundancy_threshold": 2.0} for name in ("eta", "eata", "rdumb")},
    "eata-come": {"redundancy_threshold": 2.0, "entropy_threshold": 2.0},
    "foa": {"population_size": 4},
    "memo": {"augmentations": 2},
    "note": {"memory_size": 8, "update_frequency": BATCH},
    "rotta": {"memory_size": 8, "update_frequency": BATCH},
    "sar-come": {"entropy_threshold": 2.0},
    "sotta": {"memory_size": 8, "update_frequency": BATCH, "confidence_threshold": 0.2},
    "t3a": {"filter_k": 2},
    "tribe": {"entropy_threshold": 2.0},
}
PLAIN = {"_local_scalar_dense": "item", "_unique2": "unique"}  # how torch's users call its operations
Waits = Counter[tuple[str, str]]  # (what for, line) → how often


@dataclass(frozen=True)
class Measured:
    """What each `adapt` of a short stream took."""

    waits: list[Waits]
    passes: list[tuple[int, int]]  # sample-forwards and -backwards

    @property
    def most(self) -> Waits:
        """Of the batch with the most waits."""
        return max(self.waits, key=Counter.total)

    @property
    def by_kind(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (what, _), count in self.most.items():
            found[PLAIN.get(what, what)] += count
        return found


@cache
def measure(name: str, device: str = "cuda") -> Measured:
    """One method on the simulated GPU, or on the CPU, where nothing waits."""
    gpus = SimulatedGpus()
    with gpus if device == "cuda" else nullcontext():
        method, pixels = _built(name, device)
        waits, passes = [], []
        for batch in stream(count=BATCHES, size=BATCH, last=LAST, pixels=pixels):
            images = batch.to(device)
            gpus.waits.clear()
            with CostCounter(method.model) as cost:
                method.adapt(images)
            waits.append(gpus.waits.copy())
            passes.append((cost.sample_forwards, cost.sample_backwards))
    return Measured(waits, passes)


def _built(name: str, device: str) -> tuple[Method, int]:
    model, pixels = small_vit(seed=SEED, img_size=PIXELS, patch_size=PATCH), PIXELS
    if name in BATCHNORM_ONLY:
        model, pixels = small_resnet(), 32
    if name == "dept-g":  # its prompts were trained for this one
        model, pixels = small_vit(), 16
    given = {**needed(name), **SETTINGS.get(name, {})}
    method = build_method(name, model.to(device), num_classes=10, batch_size=BATCH, params=given)
    if method.needs_source:
        source = [batch.to(device) for batch in stream(count=2, seed=7, pixels=pixels)]
        labels = [torch.arange(len(batch), device=device) for batch in source]
        method.prepare(source, labels if method.uses_labels else None)
    return method, pixels


def row(name: str) -> str:
    """A line of the table."""
    found = measure(name).by_kind
    what = ", ".join(f"{count} × {kind}" if count > 1 else kind for kind, count in sorted(found.items()))
    return f"| {name} | {found.total()} | {what} |\n"


def shown(page: str) -> dict[str, str]:
    """The lines of a page's table, by method."""
    rows = "".join(MARKED.findall(page)).splitlines(keepends=True)[2:]
    return {line.split("|")[1].strip(): line for line in rows}


def differences(page: str) -> list[str]:
    """One line per method that waits more or less often, or for something else, than a page says."""
    there, here = shown(page), {name: row(name) for name in NAMES}
    return [
        f"{name}: the page has {there.get(name, 'no line').strip()}, but now it is {here.get(name, 'no line').strip()}"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name)
    ]


def main(words: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    if words == ["--write"]:
        table = "| method | waits | for |\n|---|---:|---|\n" + "".join(map(row, NAMES))
        PAGE.write_text(MARKED.sub(lambda _: table, page), encoding="utf-8")
        return 0
    if words == ["--check"]:
        found = differences(page)
        print(*found, f"host waits of {len(NAMES)} methods: {len(found)} differ from {PAGE.name}", sep="\n")
        return 1 if found else 0
    for name in words or NAMES:
        measured = measure(name)
        print(f"{name}: {', '.join(str(waits.total()) for waits in measured.waits)} waits in {BATCHES} batches")
        for (what, line), count in sorted(measured.most.items()):
            print(f"  {count} × {what} at {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
