"""A small CIFAR-10-C.tar as a website publishes it, and processes that download it."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path

from tests.support import archives
from tests.support.servers import Website
from tta_bench.download.table import PublishedFile, PublishedSet
from tta_bench.download.table import published as all_published

ARRAYS = {f"CIFAR-10-C/{name}.npy": random.Random(name).randbytes(40_000) for name in ("fog", "labels")}
TAR = archives.tar(ARRAYS)

SCRIPT = """
import hashlib, sys
from pathlib import Path
from tta_bench.download.fetch import fetch_file
from tta_bench.download.table import PublishedFile
address, size, md5, root = sys.argv[1:]
fetched = fetch_file(PublishedFile(address, "CIFAR-10-C", bytes=int(size), md5=md5), Path(root))
print(fetched.was_there)
"""


def published(site: Website, content: bytes = TAR, **changes: object) -> PublishedFile:
    """The tar as the table would describe it."""
    known = {"bytes": len(content), "md5": hashlib.md5(content).hexdigest()}
    return PublishedFile(f"{site.address}/CIFAR-10-C.tar", "CIFAR-10-C", **{**known, **changes})  # type: ignore[arg-type]


def visible(root: Path) -> list[str]:
    """What a loader would see."""
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


def start(site: Website, root: Path) -> subprocess.Popen[str]:
    """A process that brings the tar."""
    file = published(site)
    words = [file.address, str(file.bytes), file.md5, str(root)]
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *words], stdout=subprocess.PIPE, text=True)


def published_table() -> str:
    """The table of docs/datasets.md."""
    head = ("`download`", "file", "bytes", "checksum", "stated by", "licence", "becomes")
    lines = [head, ("---",) * len(head)]
    for name, entry in all_published().items():
        lines += [_row(name, entry, file) for file in entry.files]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(name: str, entry: PublishedSet, file: PublishedFile) -> tuple[str, ...]:
    size = f"{file.bytes:,}" if file.bytes else f"about {file.gigabytes:g} GB" if file.gigabytes else "not published"
    checksum = " ".join(file.checksum) if file.checksum else "none"
    link = f"[{file.name}]({file.address})"
    return f"`{name}`", link, size, checksum, file.source or "–", entry.licence or "see its page", f"`{file.brings}`"
