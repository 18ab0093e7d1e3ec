"""All numbers that an object holds, wherever it keeps them: to see that a call left no trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


def held(thing: Any) -> dict[str, Any]:
    """Copies of all tensors, generators' states and plain values that can be reached from an object, by their path."""
    return dict(_walk(thing, "", set()))


def same(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The paths at which two results of `held` differ; empty if nothing does."""
    return [path for path in {**before, **after} if not _equal(before.get(path), after.get(path))]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and _bytes(one) == _bytes(other)
    return type(one) is type(other) and bool(one == other or (one != one and other != other))  # NaN equals NaN


def _bytes(tensor: Tensor) -> bytes:
    return bytes(tensor.contiguous().flatten().view(torch.uint8).numpy()) if tensor.numel() else b""


def _walk(thing: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Tensor):
        yield path, thing.detach().cpu().clone()
    elif isinstance(thing, torch.Generator):
        yield path, thing.get_state()
    elif isinstance(thing, bool | int | float | str | bytes | None):
        yield path, thing
    elif id(thing) not in seen:
        seen.add(id(thing))
        if isinstance(thing, Mapping):
            parts = [
                (f"[{key!r}]" if isinstance(key, str | int) else f"[{n}]", v)
                for n, (key, v) in enumerate(thing.items())
            ]
        elif isinstance(thing, list | tuple | set | frozenset) or type(thing).__name__ == "deque":
            parts = [(f"[{number}]", value) for number, value in enumerate(thing)]
        elif isinstance(thing, type) or (callable(thing) and not hasattr(thing, "parameters")):
            parts = []
        else:
            parts = [(f".{key}", value) for key, value in getattr(thing, "__dict__", {}).items()]
        for key, value in parts:
            yield from _walk(value, path + key, seen)
