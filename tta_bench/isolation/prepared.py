"""Stores what `prepare` learned, by digest: it depends on method, settings, weights and source images only.

<folder>/<digest>.safetensors   the tensors, with the cost of learning them in the header
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from tta_bench import registry
from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.files import write_whole
from tta_bench.records.cell import Cell

HEADER, CONTENT = "tta_bench_prepared", "sha256"

State = dict[str, Tensor]


@dataclass(frozen=True)
class Cost:
    """The cost of learning, measured where it was done."""

    seconds: float
    sample_forwards: int
    sample_backwards: int
    bytes: int


class Prepared:
    """Prepared states by digest: in memory, and in a folder if there is one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._kept: dict[str, tuple[State, Cost]] = {}

    def find(self, cell: Cell) -> tuple[State, Cost] | None:
        """The state learned for cells like this one; None if there is none, or its file is damaged."""
        name = digest(cell)
        if name not in self._kept and self._folder is not None:
            found = _read(self._folder / f"{name}.safetensors")
            if found is not None:
                self._kept[name] = found
        return self._kept.get(name)

    def keep(self, cell: Cell, state: State, cost: Cost) -> None:
        """Store a state; a method without one learns again in every cell."""
        if not state:
            return
        from safetensors.torch import save

        name = digest(cell)
        plain = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in state.items()}
        self._kept[name] = plain, cost
        if self._folder is not None:
            header = {HEADER: json.dumps(asdict(cost)), CONTENT: _content(plain)}
            with suppress(OSError):  # a full disk, for example: saving the record reports it
                write_whole(self._folder / f"{name}.safetensors", save(plain, header))


def digest(cell: Cell) -> str:
    """A digest of everything that a prepared state depends on."""
    settings = dict(cell.found.settings)
    if not registry.installed().load(cell.spec.method).prepare_uses_seed:
        settings.pop("seed", None)
    content = {
        "method": cell.spec.method,
        "settings": settings,
        "code": (cell.found.method_code, cell.found.harness, cell.found.data_code),
        "source": cell.found.source,
        "model": (cell.spec.model, cell.found.weights, cell.found.mean, cell.found.std, str(cell.data)),
        "run": (cell.spec.batch_size, cell.found.device, cell.spec.mode),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _content(state: State) -> str:
    """A hash of the tensors: a flipped bit would pass for something that was learned."""
    found = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.flatten().view(torch.uint8).numpy().tobytes())  # numpy knows no bf16
    return found.hexdigest()


def _read(path: Path) -> tuple[State, Cost] | None:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            cost = validate.read(Cost, json.loads(file.metadata()[HEADER]), str(path))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            return (state, cost) if _content(state) == file.metadata()[CONTENT] else None
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, UserError):
        return None  # learn it again and write the file again
