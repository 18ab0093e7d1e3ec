"""Redraws images by a diffusion model that is guided to keep their coarse structure (DDA's sampler)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.errors import UserError

from ._guided_diffusion import converted
from ._host import sent

SCHEDULE = {"num_train_timesteps": 1000, "beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02}


class Redrawing:
    """Noise an image up to step `start` of `steps`, then denoise it, each step pulled to the image's low frequencies.

    The pull is `scale` times the gradient, at the noisy images, of the distance between given and predicted images
    after both were made `down` times smaller and enlarged again. As published, it is one distance for all images
    that are redrawn together, so their number changes the pull on each.
    """

    def __init__(
        self, path: str, *, steps: int, start: int, scale: float, down: int, size: int | None, device: torch.device
    ) -> None:
        self.unet, self._scheduler = _loaded(Path(path).expanduser())
        self.unet.eval().requires_grad_(False).to(device)
        self.start, self.scale, self.down = start, scale, down
        trained: Any = self.unet.config.sample_size
        self.size = size or (trained if isinstance(trained, int) else max(trained) if trained else None)
        self._scheduler.set_timesteps(steps)
        self._times = self._scheduler.timesteps.flip(0)  # from clean to noisy

    def __call__(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """Images [B, 3, S, S] redrawn at the model's size, in [0, 1] and in steps of 1/255, as a file would hold them.

        Each image has its own seed, whatever the others are.
        """
        # On the CPU, so that noise is the same on every device.
        draws = [torch.Generator().manual_seed(seed) for seed in seeds]
        with torch.enable_grad():
            given = self._resized(images.float()) * 2 - 1
            noise = sent(torch.cat([torch.randn(1, *given.shape[1:], generator=draw) for draw in draws]), given)
            now: Tensor = self._scheduler.add_noise(given, noise, self._times[self.start].to(given.device))
            coarse = self._coarse(given)
            for time in self._times[: self.start].flip(0):
                now = self._step(now.requires_grad_(), time, coarse, draws)
        return (now / 2 + 0.5).clamp(0, 1).mul(255).round().div(255)

    def digest(self) -> str:
        """A name for the diffusion model by its weights."""
        found = hashlib.sha256()
        for name, tensor in sorted(self.unet.state_dict().items()):
            found.update(name.encode() + tensor.cpu().contiguous().numpy().data)
        return found.hexdigest()[:16]

    def _step(self, now: Tensor, time: Tensor, coarse: Tensor, draws: list[torch.Generator]) -> Tensor:
        predicted = self.unet(now, time).sample.float()
        one = draws if len(draws) > 1 else draws[0]
        before: Tensor
        before, clean = self._scheduler.step(predicted, time, now, generator=one, return_dict=False)
        (pull,) = torch.autograd.grad(torch.linalg.vector_norm(coarse - self._coarse(clean)), now)
        return (before - self.scale * pull).detach()

    def _coarse(self, images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        small = resize(images, max(height // self.down, 1), max(width // self.down, 1))
        return resize(small, height, width)

    def _resized(self, images: Tensor) -> Tensor:
        return images if self.size is None else resize(images, self.size, self.size).clamp(0, 1)


def resize(images: Tensor, height: int, width: int) -> Tensor:
    if images.shape[-2:] == (height, width):
        return images
    return F.interpolate(images, (height, width), mode="bicubic", antialias=True)


def _loaded(path: Path) -> tuple[Any, Any]:
    """The U-Net of a diffusers folder or of a guided-diffusion file, and its noise schedule."""
    try:
        from diffusers import DDPMScheduler, UNet2DModel
    except ImportError as error:
        raise UserError("dda needs the package diffusers: pip install 'tta-bench[dda]'") from error
    unet: nn.Module
    with torch.random.fork_rng(devices=[]):  # diffusers draws weights before it loads the real ones
        if path.is_file():
            unet, schedule = _from_file(path, UNet2DModel), dict(SCHEDULE)
        else:
            unet, schedule = _from_folder(path, UNet2DModel), _schedule_of(path, DDPMScheduler)
    config: Any = unet.config
    if config.in_channels != 3 or config.out_channels not in (3, 6):
        raise UserError(
            f"dda: {path} turns {config.in_channels} channels into {config.out_channels}, "
            f"expected 3 into 3, or into 6 with learned variances"
        )
    if config.num_class_embeds is not None or config.class_embed_type is not None:
        raise UserError(f"dda: {path} is conditional on classes, expected an unconditional model")
    if config.out_channels == 6:
        schedule["variance_type"] = "learned_range"
    schedulers: Any = DDPMScheduler
    return unet, schedulers.from_config(schedule, timestep_spacing="linspace", clip_sample=True)


def _from_folder(path: Path, unets: Any) -> Any:
    place = next((folder for folder in (path / "unet", path) if (folder / "config.json").is_file()), None)
    if place is None:
        raise UserError(
            f"dda: {path} is no diffusion model: expected a folder that diffusers saved (with a config.json), "
            f"or a guided-diffusion .pt file"
        )
    kind = json.loads((place / "config.json").read_text()).get("_class_name")
    if kind != unets.__name__:
        raise UserError(f"dda: {place} holds a {kind}, expected an unconditional {unets.__name__}")
    try:
        return unets.from_pretrained(place, local_files_only=True, low_cpu_mem_usage=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"dda: {place} cannot be loaded by diffusers ({' '.join(str(error).split())[:200]})") from error


def _schedule_of(path: Path, schedulers: Any) -> dict[str, Any]:
    """The schedule that the model was trained with, if it was saved beside it; else the published one."""
    for folder in (path / "scheduler", path):
        if (folder / "scheduler_config.json").is_file():
            return dict(schedulers.load_config(folder, local_files_only=True))
    return dict(SCHEDULE)


def _from_file(path: Path, unets: Any) -> Any:
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # torch raises many kinds on broken files
        raise UserError(f"dda: {path} is no readable PyTorch file of weights") from error
    config, weights = converted(state, f"dda: {path}")
    unet = unets(**config)
    try:
        unet.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except RuntimeError as error:
        raise UserError(f"dda: {path} does not fit its own layout ({' '.join(str(error).split())[:200]})") from error
    return unet
