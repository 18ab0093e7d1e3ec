"""Permissions that apply even to root, who runs the tests in a container."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NUMBERS = {"x86_64": (125, 126), "aarch64": (90, 91)}  # of the system calls
VERSION = 0x20080522
DAC_OVERRIDE, DAC_READ_SEARCH = 1 << 1, 1 << 2


@contextmanager
def denied(path: Path, to: int = 0) -> Iterator[None]:
    """In this block nobody may read the file or enter the folder, or do what the mode `to` denies."""
    mode = path.stat().st_mode
    path.chmod(to)
    try:
        with _as_an_ordinary_user():
            yield
    finally:
        path.chmod(mode)


@contextmanager
def _as_an_ordinary_user() -> Iterator[None]:
    """Takes root's right to read and write everything from this thread and those it starts."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        yield
        return
    capget, capset = NUMBERS[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(VERSION, 0)
    before = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 bits
    assert libc.syscall(capget, header, before) == 0
    fewer = (ctypes.c_uint32 * 6)(*before)
    fewer[0] &= ~(DAC_OVERRIDE | DAC_READ_SEARCH)
    assert libc.syscall(capset, header, fewer) == 0
    try:
        yield
    finally:
        assert libc.syscall(capset, header, before) == 0
