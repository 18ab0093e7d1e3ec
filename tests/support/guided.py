"""A small U-Net with the names and the arithmetic of the guided-diffusion layout, to convert and compare with."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Residual(nn.Module):
    """A residual block steered by the time; it may halve or double the size of its input."""

    def __init__(self, inputs: int, outputs: int, times: int, resize: float = 1.0) -> None:
        super().__init__()
        self.resize = resize
        self.in_layers = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(times, 2 * outputs))
        last = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.out_layers = nn.Sequential(nn.GroupNorm(32, outputs), nn.SiLU(), nn.Identity(), last)
        self.skip_connection = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h = self.in_layers[2](self._sized(self.in_layers[:2](x)))
        scale, shift = self.emb_layers(time)[:, :, None, None].chunk(2, dim=1)
        h = self.out_layers[1:](self.out_layers[0](h) * (1 + scale) + shift)
        return self.skip_connection(self._sized(x)) + h

    def _sized(self, x: Tensor) -> Tensor:
        if self.resize < 1:
            return F.avg_pool2d(x, 2)
        return F.interpolate(x, scale_factor=2.0, mode="nearest") if self.resize > 1 else x


class Attention(nn.Module):
    """Self-attention over pixels; query, key and value of each head of 64 channels lie together."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.qkv = nn.Conv1d(width, 3 * width, 1)
        self.proj_out = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        count, width = x.shape[:2]
        parts = self.qkv(self.norm(x.flatten(2))).reshape(count * width // 64, 3, 64, -1)
        q, k, v = parts.unbind(1)
        weights = torch.einsum("bct,bcs->bts", q, k).div(8).softmax(-1)
        out = torch.einsum("bts,bcs->bct", weights, v).reshape(count, width, -1)
        return x + self.proj_out(out).reshape(x.shape)


class GuidedUNet(nn.Module):
    """Levels of residual blocks on the way down and up, with attention on some."""

    def __init__(self, widths: tuple[int, ...], per_level: int, attends: tuple[bool, ...], outputs: int = 6) -> None:
        super().__init__()
        first, times = widths[0], 4 * widths[0]
        self.first = first
        self.time_embed = nn.Sequential(nn.Linear(first, times), nn.SiLU(), nn.Linear(times, times))
        self.input_blocks = nn.ModuleList([nn.ModuleList([nn.Conv2d(3, first, 3, padding=1)])])
        now, kept = first, [first]
        for level, width in enumerate(widths):
            for _ in range(per_level):
                layers: list[nn.Module] = [Residual(now, width, times)]
                now = width
                self.input_blocks.append(nn.ModuleList(layers + ([Attention(now)] if attends[level] else [])))
                kept.append(now)
            if level + 1 < len(widths):
                self.input_blocks.append(nn.ModuleList([Residual(now, now, times, 0.5)]))
                kept.append(now)
        middle = [Residual(now, now, times), Attention(now), Residual(now, now, times)]
        self.middle_block = nn.ModuleList(middle)
        self.output_blocks = nn.ModuleList()
        for level in reversed(range(len(widths))):
            for place in range(per_level + 1):
                layers = [Residual(now + kept.pop(), widths[level], times)]
                now = widths[level]
                layers += [Attention(now)] if attends[level] else []
                layers += [Residual(now, now, times, 2.0)] if level and place == per_level else []
                self.output_blocks.append(nn.ModuleList(layers))
        self.out = nn.Sequential(nn.GroupNorm(32, now), nn.SiLU(), nn.Conv2d(now, outputs, 3, padding=1))

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        half = self.first // 2
        angles = steps.float()[:, None] * torch.exp(-math.log(10000) * torch.arange(half) / half)
        time = self.time_embed(torch.cat([angles.cos(), angles.sin()], dim=1))
        kept = []
        for number, block in enumerate(self.input_blocks):
            x = block[0](x) if number == 0 else _through(block, x, time)
            kept.append(x)
        x = _through(self.middle_block, x, time)
        for block in self.output_blocks:
            x = _through(block, torch.cat([x, kept.pop()], dim=1), time)
        return self.out(x)


def _through(layers: nn.Module, x: Tensor, time: Tensor) -> Tensor:
    for layer in layers.children():
        x = layer(x, time)
    return x


def small_unet(
    widths: tuple[int, ...] = (32, 64), per_level: int = 2, attends: tuple[bool, ...] = (False, True)
) -> GuidedUNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        unet = GuidedUNet(widths, per_level, attends)
        with torch.no_grad():
            for parameter in unet.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
    return unet.eval()
