"""How fast downloads are checked and unpacked, beside `md5sum`, `sha256sum` and `tar` on the same files.

python -m benchmarks.download_speed [--rounds 7]

Both ways take turns, and only their processor time counts, so that a busy machine changes little. The ratio is the
median over rounds; 1.3 is allowed.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tta_bench.download.unpack import unpack
from tta_bench.files import checksum

ALLOWED = 1.3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arrays = _tar(folder, "arrays", files=4, size=40_000_000)  # as CIFAR-10-C
        images = _tar(folder, "images", files=3000, size=60_000)  # as ImageNet-R
        packed = _tar(folder, "packed", files=1500, size=60_000, flag="-czf")  # as ImageNet-3DCC
        cases: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
            ("md5", lambda: checksum(arrays, "md5"), _program("md5sum", arrays)),
            ("sha256", lambda: checksum(arrays, "sha256"), _program("sha256sum", arrays)),
            ("unpack 4 arrays", _ours(folder, arrays), _tar_program(folder, arrays)),
            ("unpack 3,000 images", _ours(folder, images), _tar_program(folder, images)),
            ("unpack 1,500 images, gzip", _ours(folder, packed), _tar_program(folder, packed)),
        ]
        worst = 0.0
        for label, ours, theirs in cases:
            ratios = [_seconds(ours) / _seconds(theirs) for _ in range(rounds)]
            worst = max(worst, statistics.median(ratios))
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            print(f"{label:<28} {statistics.median(ratios):.2f} times the program's time ({spread})", flush=True)
    print(f"worst: {worst:.2f}, allowed: {ALLOWED}")
    return 0 if worst <= ALLOWED else 1


def _tar(folder: Path, name: str, *, files: int, size: int, flag: str = "-cf") -> Path:
    """A tar of random files, spread over class folders."""
    rng = random.Random(name)
    for i in range(files):
        file = folder / name / f"n{i % 50:08d}" / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(rng.randbytes(size))
    subprocess.run(["tar", "-C", folder, flag, folder / f"{name}.tar", name], check=True)
    shutil.rmtree(folder / name)
    return folder / f"{name}.tar"


def _program(name: str, file: Path) -> Callable[[], object]:
    return lambda: subprocess.run([name, file], check=True, stdout=subprocess.DEVNULL)


def _ours(folder: Path, archive: Path) -> Callable[[], object]:
    return lambda: _in_new_folder(folder, lambda into: unpack(archive, into))


def _tar_program(folder: Path, archive: Path) -> Callable[[], object]:
    def run(into: Path) -> None:
        subprocess.run(["tar", "-C", into, "-xf", archive], check=True)

    return lambda: _in_new_folder(folder, run)


def _in_new_folder(folder: Path, work: Callable[[Path], object]) -> float:
    """The processor time of some work in an empty folder, without that of removing it."""
    into = Path(tempfile.mkdtemp(dir=folder))
    before = _cpu()
    work(into)
    took = _cpu() - before
    shutil.rmtree(into)
    return took


def _seconds(work: Callable[[], object]) -> float:
    before = _cpu()
    took = work()
    return took if isinstance(took, float) else _cpu() - before


def _cpu() -> float:
    """Processor time of this process and of its children that have ended."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in own)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    sys.exit(main())
