"""Stores what `prepare` learned, by digest: it depends on method, settings, weights and source images only.

<folder>/<digest>.safetensors   the tensors, with the cost of learning them in the header
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from tta_bench import validate
from tta_bench.errors import UserError
from tta_bench.files import write_whole
from tta_bench.records.cell import Cell

HEADER = "tta_bench_prepared"

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
            with suppress(OSError):  # a full disk, for example: saving the record reports it
                write_whole(self._folder / f"{name}.safetensors", save(plain, {HEADER: json.dumps(asdict(cost))}))


def digest(cell: Cell) -> str:
    """A digest of everything that a prepared state depends on."""
    content = {
        "method": cell.method,
        "settings": cell.settings,
        "code": (cell.method_code, cell.harness, cell.data_code),
        "source": cell.source,
        "model": (cell.model, cell.weights, cell.mean, cell.std, str(cell.data)),
        "run": (cell.batch_size, cell.device, cell.amp, cell.compile),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _read(path: Path) -> tuple[State, Cost] | None:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            cost = validate.read(Cost, json.loads(file.metadata()[HEADER]), str(path))
            return {name: file.get_tensor(name) for name in file.keys()}, cost  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, UserError):
        return None  # learn it again and write the file again
