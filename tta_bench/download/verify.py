"""Checksums of files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

CHUNK = 1 << 18  # fits into the processor's cache: larger ones are slower

OnHashed = Callable[[int, int], None]  # bytes hashed, of how many


def digest(file: Path, algorithm: str, on_hashed: OnHashed | None = None) -> str:
    """The checksum of a file, as `md5sum` and `sha256sum` print it."""
    found = hashlib.new(algorithm, usedforsecurity=False)
    buffer = memoryview(bytearray(CHUNK))
    done, total = 0, file.stat().st_size
    with file.open("rb", buffering=0) as content:
        while count := content.readinto(buffer):
            found.update(buffer[:count])
            done += count
            if on_hashed:
                on_hashed(done, total)
    return found.hexdigest()
