"""Writes the ImageNet-C tree from clean images, for users without the download. Imports no torch.

<out>/<corruption>/<severity>/<wnid>/<name>.JPEG    as published: shorter side to 256, centre 224, JPEG quality 85
<out>/make-corrupted.json                           how it was made, so that two versions never mix in one tree
<out>/.unfinished-<digest>                          which of its folders a command has begun; gone when it is done

Files are written atomically, and the randomness of each depends on its name only: resumed, or with more processes, the
tree comes out the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tta_bench.corruptions import CORRUPTIONS, HELD_OUT, SEVERITIES, corrupt
from tta_bench.datasets.files import decode
from tta_bench.datasets.imagenet_c import ALL, PARTS
from tta_bench.datasets.listing import list_classes
from tta_bench.datasets.on_disk import MADE, UNFINISHED
from tta_bench.datasets.transform import photograph
from tta_bench.errors import UserError, require_known, some
from tta_bench.files import write_whole, writing
from tta_bench.identity.code import code_hash
from tta_bench.system import interrupts_held

QUALITY = 85
FILES_PER_CHUNK = 16  # per message to a worker: about a quarter of a second of work
FORGOTTEN = 3600.0  # seconds without a change after which a folder of parts must belong to a killed process


@dataclass(frozen=True)
class Plan:
    """What to make from what."""

    clean: Path
    out: Path
    corruptions: tuple[str, ...] = CORRUPTIONS
    severities: tuple[int, ...] = (5,)
    size: int = 224

    @property
    def files_per_image(self) -> int:
        return len(self.corruptions) * len(self.severities)


@dataclass(frozen=True)
class Made:
    """The result for one clean image."""

    path: Path
    written: int = 0
    kept: int = 0
    error: str = ""


def check(plan: Plan) -> None:
    """Refuse an impossible plan before doing anything."""
    check_corruptions(plan.corruptions, plan.severities)
    if plan.size < 32:
        raise UserError(f"size: expected at least 32 pixels, got {plan.size}")
    if not plan.clean.is_dir():
        raise UserError(f"--from {plan.clean}: no such folder; expected class folders with clean images")
    if plan.out.resolve().is_relative_to(plan.clean.resolve()):
        raise UserError(f"--out {plan.out} lies inside --from {plan.clean}: choose another --out")


def check_corruptions(corruptions: Sequence[str], severities: Sequence[int]) -> None:
    """Refuse unknown corruptions and severities."""
    require_known(corruptions, (*CORRUPTIONS, *HELD_OUT), "unknown corruption")
    for severity in severities:
        if severity not in SEVERITIES:
            raise UserError(f"severity: expected a whole number from 1 to 5, got {severity}")


def find_images(clean: Path) -> list[Path]:
    """The images in a folder's class folders, in order; every class must have some, or labels would shift."""
    classes = list_classes(clean)
    if not classes:
        raise UserError(f"--from {clean} has no class folders: expected <wnid>/<name>.JPEG in it")
    for wnid, names in classes.items():
        if len({Path(name).stem for name in names}) < len(names):
            raise UserError(f"class folder {clean / wnid}: two images differ only in their suffix and would become one")
    return [clean / wnid / name for wnid, names in classes.items() for name in names]


def make(plan: Plan, images: Sequence[Path], workers: int) -> Generator[Made, None, None]:
    """Make the missing files; yields each image when its files are done. Close the generator to stop early."""
    _prepare(plan)
    unfinished, is_whole = _begin(plan), True
    with _parts(plan.out) as parts:
        one_by_one = (make_one(plan, path, parts) for path in images)
        for made in one_by_one if workers == 1 else _in_processes(plan, images, parts, workers):
            is_whole = is_whole and not made.error
            yield made
    if is_whole:
        unfinished.unlink(missing_ok=True)


def _begin(plan: Plan) -> Path:
    """Mark what this command makes as unfinished; datasets refuse it until the mark is gone."""
    folders = [f"{corruption}/{severity}" for corruption in plan.corruptions for severity in plan.severities]
    content = json.dumps(folders).encode()
    mark = plan.out / f"{UNFINISHED}{hashlib.sha256(content).hexdigest()[:12]}"
    write_whole(mark, content)
    return mark


def make_one(plan: Plan, path: Path, parts: Path) -> Made:
    """Make the missing files of one clean image, which is decoded at most once."""
    wnid, name = path.parent.name, f"{path.stem}.JPEG"
    targets = [(c, s, plan.out / c / str(s) / wnid / name) for c in plan.corruptions for s in plan.severities]
    missing = [(c, s, target) for c, s, target in targets if not is_whole(target)]
    if not missing:
        return Made(path, kept=len(targets))
    try:
        image = read_clean(path, plan.size)
    except UserError as error:
        return Made(path, error=str(error))
    # Not `write_whole`, which waits for the disk: a tree has 750,000 files, and `is_whole` detects truncated ones.
    part = parts / f"{os.getpid()}.JPEG"
    for corruption, severity, target in missing:
        worse = corrupt(image, corruption, severity, image_id=f"{wnid}/{path.stem}", scale="large")
        with writing(target):
            Image.fromarray(worse).save(part, "JPEG", quality=QUALITY, optimize=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            part.replace(target)
    return Made(path, written=len(missing), kept=len(targets) - len(missing))


def is_whole(path: Path) -> bool:
    """Whether a JPEG has its end marker: a crash of the machine can leave a file empty or truncated."""
    try:
        with path.open("rb") as file:
            file.seek(-2, os.SEEK_END)
            return file.read() == b"\xff\xd9"
    except OSError:
        return False


def read_clean(path: Path, size: int) -> NDArray[np.uint8]:
    """An image as [size, size, 3], preprocessed as the published ones were."""
    pixels: NDArray[np.uint8] = decode(path, path, photograph(size)).transpose(1, 2, 0)
    return pixels


def _prepare(plan: Plan) -> None:
    """Claim the output folder; refuses a tree that was made with other settings or code."""
    note = plan.out / MADE
    code = {name: code_hash(f"tta_bench.{name}") for name in ("corruptions", "datasets.transform")}
    made = {"size": plan.size, "quality": QUALITY, "code": code}
    try:
        refuse_other_make(plan.out)
        plan.out.mkdir(parents=True, exist_ok=True)
        if not note.exists():
            write_whole(note, json.dumps(made, indent=1).encode() + b"\n")
        before = json.loads(note.read_text())
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise UserError(f"--out {plan.out} cannot be used: {reason}: choose another --out") from error
    if before != made:
        raise UserError(f"--out {plan.out} was made differently ({before}, now {made}): choose another --out")


def refuse_other_make(out: Path) -> None:
    """Refuse a tree from elsewhere, such as an incomplete download: our note would claim all of its images."""
    names = (*ALL, *(f"{corruption}.tar" for corruption in ALL), *PARTS)
    there = [name for name in names if (out / name).exists()]
    # In this order: another process may be writing its first file, but has written the note before.
    if there and not (out / MADE).exists():
        raise UserError(
            f"--out {out} has {some(there)} but no {MADE}, so this command did not make them, and they must not be "
            f"mixed: choose another --out"
        )


@contextmanager
def _parts(out: Path) -> Iterator[Path]:
    """A folder for unfinished files on the same disk, removed at the end with those of killed processes."""
    with writing(f"--out {out}", ": choose another --out"):
        for old in out.glob(".parts-*"):
            if time.time() - old.stat().st_mtime > FORGOTTEN:
                shutil.rmtree(old, ignore_errors=True)
        parts = Path(tempfile.mkdtemp(prefix=".parts-", dir=out))
    try:
        yield parts
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _in_processes(plan: Plan, images: Sequence[Path], parts: Path, workers: int) -> Iterator[Made]:
    size = max(1, FILES_PER_CHUNK // plan.files_per_image)
    chunks = iter([images[i : i + size] for i in range(0, len(images), size)])
    with worker_pool(workers) as pool:
        with interrupts_held():  # workers that start here never get a Ctrl-C: they finish their chunk
            waiting = {pool.submit(_make_chunk, plan, chunk, parts) for chunk in islice(chunks, 2 * workers)}
        while waiting:
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                yield from future.result()
                waiting |= {pool.submit(_make_chunk, plan, chunk, parts) for chunk in islice(chunks, 1)}


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Spawned, not forked, because a progress bar's thread may hold a lock; a killed one is a UserError."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield pool
    except BrokenProcessPool as error:
        raise UserError(
            "a worker process was killed, perhaps out of memory: run the same command again with fewer --workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _make_chunk(plan: Plan, chunk: Sequence[Path], parts: Path) -> list[Made]:
    return [make_one(plan, path, parts) for path in chunk]
