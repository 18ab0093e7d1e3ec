"""Process state that a method could change for later methods: detects changes and restores it."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

_HOOKS = {
    name: registry
    for home in (modules, optimizers)
    for name, registry in vars(home).items()
    if name.startswith("_global_") and name.endswith(("_hooks", "_hooks_always_called", "_hooks_with_kwargs"))
}


UNREADABLE = "unreadable"  # in place of a value that cannot be read, as a working directory that was removed


def _read(get: Callable[[], Any]) -> Any:
    try:
        return get()
    except (AttributeError, OSError, RuntimeError):
        return UNREADABLE


def _rng_state() -> bytes:
    return torch.get_rng_state().numpy().tobytes()


def _set_rng_state(state: bytes) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _gpu_states() -> tuple[bytes, ...]:
    """Of each GPU's generator; none before the first use of a GPU, which asking would be."""
    found = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return tuple(state.numpy().tobytes() for state in found)


def _set_gpu_states(states: tuple[bytes, ...]) -> None:
    if states:
        torch.cuda.set_rng_state_all([torch.frombuffer(bytearray(state), dtype=torch.uint8) for state in states])


def _numpy_state() -> tuple[Any, ...]:
    state: Any = np.random.get_state()
    kind, keys, *rest = state
    return (kind, keys.tobytes(), *rest)


def _set_numpy_state(state: tuple[Any, ...]) -> None:
    kind, keys, *rest = state
    np.random.set_state((kind, np.frombuffer(keys, np.uint32), *rest))


def _hooks() -> dict[str, dict[int, Any]]:
    return {name: dict(registry) for name, registry in _HOOKS.items()}


def _set_hooks(before: dict[str, dict[int, Any]]) -> None:
    for name, registry in _HOOKS.items():
        registry.clear()
        registry.update(before[name])


def _handlers() -> dict[int, Any]:
    found = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return {number: handler for number, handler in found.items() if handler is not None}  # None: not set by Python


def _set_handlers(before: dict[int, Any]) -> None:
    if threading.current_thread() is threading.main_thread():  # only the main thread can set handlers
        changed = {number: handler for number, handler in before.items() if signal.getsignal(number) != handler}
        for number, handler in changed.items():  # some, as SIGKILL's, cannot be set
            signal.signal(number, handler)


def open_files() -> list[str]:
    """Paths of the files that this process has open; empty if the system does not provide them."""
    found = []
    for file in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            found.append(str(file.readlink()))
    # Not devices: drivers open them when they like.
    return sorted(
        path for path in found if path.startswith("/") and not path.startswith(("/dev/", "/proc/", "/memfd:"))
    )


def _flushes_denormals() -> bool:
    return bool((torch.full((1,), 1e-40) * 1.0 == 0).item())


def _set_default_device(before: torch.device) -> None:
    torch.set_default_device(None if before == torch.device("cpu") else before)  # a device slows every call down


def _set_environment(before: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def _flags() -> tuple[bool, ...]:
    backends: Any = torch.backends
    return backends.mkldnn.enabled, backends.cudnn.enabled, backends.cudnn.benchmark


def _set_flags(before: tuple[bool, ...]) -> None:
    backends: Any = torch.backends
    torch._C._set_mkldnn_enabled(before[0])
    backends.cudnn.enabled, backends.cudnn.benchmark = before[1:]


def _precisions() -> dict[str, Any]:
    """The settings for the precision of float32, old and new; setting one kind changes the other.

    The old ones cannot be read while they contradict the new ones, which older versions of torch do not have.
    """
    old = {"matmul": _read(torch.get_float32_matmul_precision), "cudnn": _read(lambda: torch.backends.cudnn.allow_tf32)}
    return old | {name: _read(partial(attrgetter(name), torch)) for name in _NEW_PRECISIONS}


def _set_precisions(before: dict[str, Any]) -> None:
    # Unreadable: hidden by the new ones, most likely with its default.
    torch.set_float32_matmul_precision("highest" if before["matmul"] is UNREADABLE else before["matmul"])
    if before["cudnn"] is not UNREADABLE:
        torch.backends.cudnn.allow_tf32 = before["cudnn"]
    for name in _NEW_PRECISIONS:
        if _precisions()[name] != before[name]:
            home, _, attribute = name.rpartition(".")
            setattr(attrgetter(home)(torch), attribute, before[name])


# The general ones first: the others follow them until they are set.
_NEW_PRECISIONS = [
    f"backends.{home}fp32_precision"
    for home in (
        *("", "cudnn.", "cuda.matmul.", "cudnn.conv.", "cudnn.rnn."),
        *("mkldnn.", "mkldnn.matmul.", "mkldnn.conv.", "mkldnn.rnn."),
    )
]

_STATE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "Python's random generator": (random.getstate, random.setstate),
    "numpy's random generator": (_numpy_state, _set_numpy_state),
    "torch's random generator": (_rng_state, _set_rng_state),
    "the GPUs' random generators": (_gpu_states, _set_gpu_states),
    "torch's default device": (torch.get_default_device, _set_default_device),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's deterministic mode": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "torch's matmul precision": (_precisions, _set_precisions),
    "torch's backend flags": (_flags, _set_flags),
    "torch's treatment of denormal numbers": (_flushes_denormals, torch.set_flush_denormal),
    "torch's global hooks": (_hooks, _set_hooks),
    "signal handlers": (_handlers, _set_handlers),
    "the working directory": (os.getcwd, os.chdir),
    "environment variables": (lambda: dict(os.environ), _set_environment),
}

_GENERATORS = [name for name in _STATE if "random generator" in name]


def process_state() -> dict[str, Any]:
    """The current process state, for comparison."""
    return {name: _read(get) for name, (get, _) in _STATE.items()}


@contextmanager
def restored(before: dict[str, Any] | None = None) -> Iterator[list[str]]:
    """Restore what changes in this block; the yielded list names it afterwards.

    `before` is the state to return to, by default the current one; it may change in the block (see `Outside`).
    """
    wanted = process_state() if before is None else before
    changed: list[str] = []
    with ExitStack() as stack:  # which restores the rest even if one part cannot be restored
        for name in reversed(_STATE):
            stack.callback(_restore, name, wanted, changed)
        yield changed


def _restore(name: str, before: dict[str, Any], changed: list[str]) -> None:
    get, restore = _STATE[name]
    if _read(get) != before[name]:
        changed.append(name)
        if before[name] is not UNREADABLE:
            restore(before[name])


class Outside:
    """Code of the caller that runs in between, such as a data loader: what it changes is no change by a method.

    Its random generators are its own: it draws what it would draw without the method, and leaves them so.
    """

    def __init__(self, before: dict[str, Any]) -> None:
        """Take the state that `restored` returns to; it follows what the caller's code changes."""
        self._before = before
        self._generators = {name: before[name] for name in _GENERATORS}

    def __enter__(self) -> Outside:
        return self

    def __exit__(self, *failure: object) -> None:
        _set_generators(self._generators)

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Run code of the caller in this block."""
        inside = {name: _read(_STATE[name][0]) for name in _GENERATORS}
        _set_generators(self._generators)
        start = process_state()
        try:
            yield
        finally:
            now = process_state()
            self._generators = {name: now[name] for name in _GENERATORS}
            self._before |= {
                name: value for name, value in now.items() if value != start[name] and name not in _GENERATORS
            }
            _set_generators(inside)


def _set_generators(states: dict[str, Any]) -> None:
    for name, state in states.items():
        if state is not UNREADABLE:
            _STATE[name][1](state)
