"""A folder of redrawn images, found by the pixels of the image that each was drawn from.

A method sees batches and no file names, so the name of a picture is a hash of the pixels that the method was given,
as bytes: the same in every order, scenario and batch size, and another one as soon as images are cut or resized in
another way. `drawn.json` says how the pictures were made.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tta_bench.errors import UserError

NOTE = "drawn.json"


def name_of(image: Tensor) -> str:
    """A name for an image [3, H, W] in [0, 1] by its pixels in 8 bits."""
    pixels = _bytes(image)
    return hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).hexdigest()[:32]


class Pictures:
    """Pictures of one way of drawing: a folder made in another way is refused."""

    def __init__(self, folder: str, made_by: dict[str, Any], *, may_draw: bool) -> None:
        self.folder = Path(folder).expanduser()
        note = self.folder / NOTE
        if not self.folder.is_dir() and not may_draw:
            raise UserError(f"dda: generated={folder} is no folder; make it by a run with dda.unet set as well")
        if note.is_file():
            self._refuse_other(_noted(note), made_by)
        elif may_draw:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(note, json.dumps(made_by, indent=1).encode())
        if not may_draw and next(self.folder.glob("??/*.png"), None) is None:
            raise UserError(f"dda: generated={folder} holds no drawings; make them by a run with dda.unet set as well")

    def get(self, name: str, device: torch.device) -> Tensor | None:
        """A picture [3, H, W] in [0, 1]; None if it has not been drawn yet."""
        path = self._path(name)
        if not path.is_file():
            return None
        try:
            with Image.open(path) as picture:
                pixels = np.asarray(picture.convert("RGB"))
        except OSError as error:
            raise UserError(f"dda: {path} is no readable image: delete it, and it is drawn again") from error
        return torch.from_numpy(pixels.copy()).to(device).permute(2, 0, 1).float() / 255

    def keep(self, name: str, picture: Tensor) -> None:
        path = self._path(name)
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        Image.fromarray(_bytes(picture).transpose(1, 2, 0)).save(part, format="png")
        part.replace(path)  # whole or not at all: other processes may draw into the same folder

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.png"

    def _refuse_other(self, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        for key, value in wanted.items():
            if key in found and found[key] != value:
                raise UserError(
                    f"dda: the images of {self.folder} were drawn with {key} {found[key]}, not {value}: "
                    f"set it to that, or choose another folder"
                )


def _noted(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UserError(f"dda: {path} is damaged: delete it if you know how these images were drawn")
    return found


def _bytes(image: Tensor) -> Any:
    return image.detach().clamp(0, 1).mul(255).round().to(torch.uint8).cpu().numpy()


def _write(path: Path, content: bytes) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(path)
