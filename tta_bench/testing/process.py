"""State of the process that a method could change for those who run after it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def _rng_state() -> bytes:
    return torch.get_rng_state().numpy().tobytes()


def _set_rng_state(state: bytes) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


_STATE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "Python's random generator": (random.getstate, random.setstate),
    "numpy's random generator": (np.random.get_state, np.random.set_state),
    "torch's random generator": (_rng_state, _set_rng_state),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's deterministic mode": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "torch's matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
}


def process_state() -> dict[str, str]:
    """All of it as it is now, to be compared."""
    return {name: repr(get()) for name, (get, _) in _STATE.items()}


@contextmanager
def restored() -> Iterator[None]:
    """Put back what was changed in here, so that one broken method does not spoil the tests after it."""
    before = {name: get() for name, (get, _) in _STATE.items()}
    seen = process_state()
    try:
        yield
    finally:
        for name, now in process_state().items():
            if now != seen[name]:
                _STATE[name][1](before[name])
