"""DDA: move the test images to the source domain with a diffusion model, and leave the classifier alone.

A diffusion model that was trained on source images redraws each test image: noise up to step `start` of `steps`
hides the corruption, and denoising paints the image again as a source image, guided towards the structure that the
test image keeps when it is made `down` times smaller. The classifier sees both images, and the sum of its two
predictions is the answer, so a bad drawing does not decide alone. Nothing is learned: batches, their order and their
size do not matter, but for the guidance (see `images_at_once`).

Two settings say where drawings come from. `unet`: a folder with an unconditional UNet2DModel of diffusers, or a file
in the layout of OpenAI's guided-diffusion (the published one is 256x256_diffusion_uncond.pt). `generated`: a folder of
drawings from an earlier run, since 50,000 images take days; with both, images without a drawing are drawn and kept
there, so an interrupted run goes on. Drawings are found by the pixels of the image (see `_pictures.py`).

Source: Gao et al., "Back to the Source: Diffusion-Driven Adaptation to Test-Time Corruption", CVPR 2023
(shiyegao/DDA), with the settings of its script. Departs from it: the generator is seeded for each image; drawings are
scaled back to the size of the input, where the code cuts the middle 224 of 256 pixels out of image and drawing;
float32 (or `--amp bf16`) in place of float16. The released classifier returns probabilities, so these are
added; `ensemble="logits"` adds what the variable's name says, and "none" scores the drawing alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._diffusion import Redrawing, resize
from ._head import frozen
from ._host import sent
from ._pictures import NOTE, Pictures, name_of
from ._ranges import not_negative


class Dda(Method):
    """Two forwards, of each image and of its drawing by a guided diffusion model.

    `images_at_once` are redrawn together and share one guidance, 4 as published. `size` is that of the drawings,
    by default what the U-Net was trained for.
    """

    paper = "Gao et al., CVPR 2023"
    bibtex = """@inproceedings{gao2023dda,
        title = {Back to the Source: Diffusion-Driven Adaptation to Test-Time Corruption},
        author = {Gao, Jin and Zhang, Jialing and Liu, Xihui and Darrell, Trevor and Shelhamer, Evan and Wang, Dequan},
        booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
        year = {2023},
    }"""
    adapts = "nothing: images are redrawn"
    passes = "2 forwards; 50 forwards and backwards of a diffusion model"
    passes_per_image = (3200, 3200)  # 50 of a U-Net, each about 64 of a ViT-B/16
    kind = "nothing"
    # 50 forwards and backwards of a U-Net are 150 forwards, each of up to 1,000 forwards of a small classifier.
    slower_than_source = 150_000.0
    needs = ("diffusers", "a diffusion model")
    computes_besides = "a diffusion model"

    @classmethod
    def files(cls, settings: Mapping[str, Any]) -> list[Path]:
        """The diffusion model; where drawings alone are used, the note that says how they were made."""
        if settings.get("unet"):
            return [Path(settings["unet"])]
        return [Path(settings["generated"]) / NOTE] if settings.get("generated") else []

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        unet: str | None = None,
        generated: str | None = None,
        steps: int = 100,
        start: int = 50,
        scale: float = 6.0,
        down: int = 4,
        size: int | None = None,
        images_at_once: int = 4,
        ensemble: Literal["probabilities", "logits", "none"] = "probabilities",
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if unet is None and generated is None:
            raise UserError(
                "dda needs a diffusion model (dda.unet=FOLDER) or drawings made earlier (dda.generated=FOLDER)"
            )
        for name, path in (("unet", unet), ("generated", generated)):
            if path == "":  # would be the folder that the command runs in
                raise ValueError(f"{name} is empty, expected a path, or none")
        if not 1 <= start < steps <= 1000:
            raise ValueError(f"start is {start} and steps is {steps}, expected 1 <= start < steps <= 1000")
        for name, value in (("down", down), ("images_at_once", images_at_once), ("size", 1 if size is None else size)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected 1 or more")
        not_negative(scale=scale)
        self.images_at_once, self.ensemble, self.seed = images_at_once, ensemble, seed
        frozen(model)
        device = next(model.parameters()).device
        drawn: dict[str, Any] = {"steps": steps, "start": start, "scale": scale, "down": down}
        self._redraw = None if unet is None else Redrawing(unet, **drawn, size=size, device=device)
        drawn["images_at_once"] = images_at_once
        if self._redraw is not None and generated is not None:
            drawn |= {"size": self._redraw.size, "unet": self._redraw.digest()}
        self._pictures = None if generated is None else Pictures(generated, drawn, may_draw=unet is not None)

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        drawing: Tensor = self.model(self.redrawn(batch))
        if self.ensemble == "none":
            return drawing
        given: Tensor = self.model(batch)
        if self.ensemble == "logits":
            return given + drawing
        # The log of the mean probability, without the underflow of probabilities themselves.
        return torch.logaddexp(given.float().log_softmax(1), drawing.float().log_softmax(1)) - math.log(2)

    def predict(self, batch: Tensor) -> Tensor:
        return self.adapt(batch)

    def redrawn(self, batch: Tensor) -> Tensor:
        """A drawing of each image, in the size of the batch."""
        names = [name_of(image) for image in batch.cpu()]
        pictures = {name: self._pictures.get(name, batch.device) if self._pictures else None for name in names}
        missing = [i for i, name in enumerate(names) if pictures[name] is None]
        if missing and self._redraw is None:
            assert self._pictures is not None
            raise UserError(
                f"dda: {self._pictures.folder} has no drawing of {len(missing)} of {len(batch)} images "
                f"(the first would be {names[missing[0]]}.png); a run with dda.unet set as well draws what is missing"
            )
        for first in range(0, len(missing), self.images_at_once):
            some = missing[first : first + self.images_at_once]
            pictures |= self._drawn(batch[sent(torch.tensor(some), batch)], [names[i] for i in some])
        height, width = batch.shape[-2:]
        parts = [resize(picture[None], height, width) for name in names if (picture := pictures[name]) is not None]
        return torch.cat(parts).clamp(0, 1).to(batch.dtype)

    def _drawn(self, images: Tensor, names: list[str]) -> dict[str, Tensor]:
        assert self._redraw is not None
        seeds = [int(hashlib.sha256(f"{self.seed} {name}".encode()).hexdigest()[:15], 16) for name in names]
        drawn = dict(zip(names, self._redraw(images, seeds), strict=True))
        if self._pictures is not None:
            for name, picture in drawn.items():
                self._pictures.keep(name, picture)
        return drawn
