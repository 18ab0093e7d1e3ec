"""An inspection: features of a method on a few batches, stored for figures. Plain data, read without torch.

<folder>/manifest.json    the command, the method with its settings, the model, the batches
<folder>/features.npz     the arrays of `Inspection`
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from tta_bench.checked import validate
from tta_bench.checked.annotations import Count, Whole
from tta_bench.checked.parse import from_json
from tta_bench.errors import UserError
from tta_bench.files import read_whole, write_whole
from tta_bench.records.store import Store

Floats = NDArray[np.float32]
KIND = "inspection"
MOST_BYTES = 2**30  # of all arrays together


@dataclass(frozen=True)
class InspectionManifest:
    """How an inspection was made."""

    inspected_suite: str
    method: str
    settings: dict[str, Any]
    model: str
    weights: str
    batch_size: Count
    batches: Count
    seed: Whole
    lacking: str  # why there is no attention on clean images; empty if there is
    command: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """Arrays over all inspected images (N), in the order in which the method saw them.

    What is not available is empty: shifts of a method that predicts none, missing originals.
    """

    manifest: InspectionManifest
    task: NDArray[np.str_]  # [N]
    label: NDArray[np.int64]
    prediction: NDArray[np.int64]  # of the adapted model
    shift_first: Floats  # [N, d]: predicted domain shift in the first and in the last block
    shift_last: Floats
    correlation_first: Floats  # [N, h, w]: of that shift with each patch token after the same block
    correlation_last: Floats
    attention_clean: Floats  # [N, h, w]: class token to patches in the last block; source model, original image
    attention_corrupted: Floats  # source model, corrupted image
    attention_adapted: Floats  # adapted model, corrupted image
    shown: NDArray[np.int64]  # [S]: positions in the above of the images that are stored themselves
    image: NDArray[np.uint8]  # [S, 3, H, W]
    original: NDArray[np.uint8]

    @property
    def method(self) -> str:
        return self.manifest.method

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(self.task.tolist()))

    def save(self, folder: Path) -> list[Path]:
        """Write both files, the arrays first."""
        refuse_other(folder)
        buffer = BytesIO()
        np.savez_compressed(buffer, **{name: getattr(self, name) for name in ARRAYS})
        text = json.dumps({"kind": KIND, **asdict(self.manifest)}, indent=1) + "\n"
        write_whole(_arrays(folder), buffer.getvalue())
        write_whole(_manifest(folder), text.encode())
        return [_arrays(folder), _manifest(folder)]

    @classmethod
    def open(cls, folder: Path) -> Inspection:
        """Read what `save` wrote; UserError for anything else."""
        if not is_inspection(folder):
            raise UserError(f"{folder} is not an inspection: this figure needs the output of tta-bench inspect")
        content = {key: value for key, value in _read_manifest(folder).items() if key != "kind"}
        manifest = validate.read(InspectionManifest, content, str(_manifest(folder)))
        try:
            packed = BytesIO(read_whole(_arrays(folder)))
            with ZipFile(packed) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                    raise ValueError(f"it unpacks to more than {MOST_BYTES:,} bytes")
            with np.load(packed, allow_pickle=False) as arrays:
                return cls(manifest, **{name: arrays[name] for name in ARRAYS})
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, MemoryError) as error:
            raise UserError(f"{_arrays(folder)} cannot be read ({error}): run tta-bench inspect again") from error


ARRAYS = tuple(field.name for field in fields(Inspection) if field.name != "manifest")


def is_inspection(folder: Path) -> bool:
    return _read_manifest(folder).get("kind") == KIND


def refuse_other(folder: Path) -> None:
    """Refuse to overwrite anything but an older inspection."""
    if folder.is_dir():
        if is_inspection(folder):
            return
        if any(folder.iterdir()):
            raise UserError(f"output folder {folder} holds other files: choose another --out")
    Store(folder).refuse_unfit("")


def _manifest(folder: Path) -> Path:
    return folder / "manifest.json"


def _arrays(folder: Path) -> Path:
    return folder / "features.npz"


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The content of the manifest; empty if it is missing or damaged."""
    try:
        content = from_json(read_whole(_manifest(folder)), str(_manifest(folder)))
    except (OSError, UserError):
        return {}
    return content if isinstance(content, dict) else {}
