"""Random numbers of a method of its own: the cell's seed decides them, and the global generators stay as they are."""

from __future__ import annotations

import torch
from torch import Tensor

LARGE = 0x5851F42D4C957F2D  # any number: it only makes another seed of a seed


class Draws:
    """Draws that start again from the seed each time one is made.

    Numbers that steer a computation come from the CPU, so they cost no wait for a GPU and are the same on every
    device. What is as large as an image or a weight is drawn where it is used, with `on`. Its generator is another one
    even on the CPU, or large draws there would change the numbers that steer.
    """

    def __init__(self, seed: int) -> None:
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"seed is {seed}, expected a whole number of 64 bits")
        self._seed = seed
        self.cpu = torch.Generator().manual_seed(seed)
        self._large: dict[torch.device, torch.Generator] = {}

    def on(self, device: torch.device) -> torch.Generator:
        """The generator of large draws on a device."""
        if device not in self._large:
            self._large[device] = torch.Generator(device).manual_seed(self._seed ^ LARGE)
        return self._large[device]

    def uniform(self, low: float, high: float) -> float:
        """One number between two bounds."""
        return float(self.uniforms(low, high, 1))

    def uniforms(self, low: float, high: float, *shape: int) -> Tensor:
        return torch.empty(shape).uniform_(low, high, generator=self.cpu)

    def whole(self, below: int, *shape: int) -> Tensor:
        """Whole numbers from 0 to `below` - 1, each as likely as the other."""
        return torch.randint(below, shape, generator=self.cpu)

    def order(self, count: int) -> list[int]:
        """The numbers 0 to `count` - 1 in random order."""
        return torch.randperm(count, generator=self.cpu).tolist()
