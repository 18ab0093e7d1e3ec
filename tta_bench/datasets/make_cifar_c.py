"""Writes CIFAR-10-C or CIFAR-100-C from the clean test images, for users without the download. Imports no torch.

<out>/<corruption>.npy       bytes [N, 32, 32, 3]: the test images at each severity that was made, in ascending order
<out>/labels.npy             the labels of five severities, as published
<out>/make-corrupted.json    how it was made, so that two versions never mix, and which severities the arrays hold

Strengths are CIFAR-C's. A file is written when all its severities are done: after an interrupt it is missing.
"""

from __future__ import annotations

import io
import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tta_bench.corruptions import CORRUPTIONS, SEVERITIES, corrupt_many
from tta_bench.datasets import cifar
from tta_bench.datasets.cifar_c import severities_made
from tta_bench.datasets.make_corrupted import check_corruptions, worker_pool
from tta_bench.datasets.on_disk import MADE
from tta_bench.errors import UserError
from tta_bench.files import write_whole, writing
from tta_bench.identity.code import code_hash
from tta_bench.system import interrupts_held

IMAGES_PER_CHUNK = 1000


@dataclass(frozen=True)
class CifarPlan:
    """What to make: the clean test images are below `root`."""

    root: Path
    out: Path
    classes: int
    corruptions: tuple[str, ...] = CORRUPTIONS
    severities: tuple[int, ...] = tuple(SEVERITIES)


def make(plan: CifarPlan, workers: int) -> Generator[tuple[str, bool], None, None]:
    """Write the missing files; yields each corruption, and whether it was made now. Close it to stop early."""
    check_corruptions(plan.corruptions, plan.severities)
    clean = cifar.clean(plan.root, plan.classes, "test")
    _prepare(plan, clean)
    pixels = clean.read(np.arange(len(clean.ids))).transpose(0, 2, 3, 1)
    chunks = [slice(start, start + IMAGES_PER_CHUNK) for start in range(0, len(pixels), IMAGES_PER_CHUNK)]
    with worker_pool(workers) as pool:
        for corruption in plan.corruptions:
            target = plan.out / f"{corruption}.npy"
            if target.exists():
                yield corruption, False
                continue
            with interrupts_held():  # processes that start here never get a Ctrl-C: they finish their chunk
                parts = [
                    pool.submit(_corrupt, pixels[chunk], corruption, severity, list(clean.ids[chunk]))
                    for severity in sorted(plan.severities)
                    for chunk in chunks
                ]
            _save(target, np.concatenate([part.result() for part in parts]))
            yield corruption, True


def _corrupt(pixels: NDArray[np.uint8], corruption: str, severity: int, ids: list[str]) -> NDArray[np.uint8]:
    return corrupt_many(pixels, corruption, severity, image_ids=ids, scale="small")


def _prepare(plan: CifarPlan, clean: cifar.CleanImages) -> None:
    """Claim the output folder; refuses a folder made with other settings or code, or by another tool."""
    note = plan.out / MADE
    made = {"severities": sorted(plan.severities), "code": code_hash("tta_bench.corruptions")}
    there = sorted(path.name for path in plan.out.glob("*.npy"))
    if there and not note.exists():
        raise UserError(
            f"--out {plan.out} has {there[0]} but no {MADE}, so this command did not make it: choose another"
        )
    if note.exists() and json.loads(note.read_text()) != made:
        severities = ", ".join(map(str, severities_made(plan.out) or ()))
        raise UserError(
            f"--out {plan.out} was made with severities {severities} or by another version: choose another --out"
        )
    with writing(f"--out {plan.out}", ": choose another --out"):
        plan.out.mkdir(parents=True, exist_ok=True)
        write_whole(note, json.dumps(made, indent=1).encode() + b"\n")
    _save(plan.out / "labels.npy", np.tile(clean.labels, len(SEVERITIES)))


def _save(path: Path, array: NDArray[np.generic]) -> None:
    content = io.BytesIO()
    np.save(content, array)
    with writing(path):
        write_whole(path, content.getvalue())
