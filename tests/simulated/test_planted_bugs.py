"""Bugs of methods that only a GPU shows: the simulation names each with its line."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.small import small_vit, stream
from tta_bench import Method, build_method
from tta_bench.measure.process import restored
from tta_bench.simulated import SimulatedGpus


class Sound(Method):
    """A method without a bug, for others to have one."""

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.mean = torch.zeros(num_classes, device=next(model.parameters()).device)

    def adapt(self, batch: Tensor) -> Tensor:
        with torch.no_grad():
            return self.think(batch, self.model(batch))

    def forget(self) -> None:
        self.mean = torch.zeros_like(self.mean)

    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * logits.mean(0)
        return logits - self.mean


class MeanLeftOnTheCpu(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        mean = torch.zeros(self.num_classes)
        return logits - mean  # bug


class SumsOnTheCpu(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        sums = torch.zeros(10, dtype=torch.float64)
        sums += logits.double().sum(0)  # bug
        return logits


class CpuGenerator(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return logits + torch.randn(logits.shape, device=logits.device, generator=generator)  # bug


class TokensNeverMoved(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        tokens = torch.zeros(len(logits), 2)
        return torch.cat([tokens, logits], dim=1)[:, 2:]  # bug


class NumpyOfGpuTensor(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        return torch.from_numpy(logits.numpy())  # bug


class IntegerProduct(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        votes = F.one_hot(logits.argmax(1), 10)
        return logits + (votes @ votes.T).sum(1, keepdim=True)  # bug


class MirroredByTheCpu(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        chosen = torch.arange(len(batch)) % 2 == 0
        views = torch.where(chosen[:, None, None, None], batch.flip(-1), batch)  # bug
        return self.model(views)


class ReadBeforeArrival(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        with torch.cuda.stream(torch.cuda.Stream()):
            return logits * 2  # bug


class GeneratorOfTheOtherGpu(Sound):
    def think(self, batch: Tensor, logits: Tensor) -> Tensor:
        return logits + torch.rand(10, device="cuda:0", generator=torch.Generator("cuda:1"))  # bug


PLANTED = [
    *(MeanLeftOnTheCpu, SumsOnTheCpu, CpuGenerator, TokensNeverMoved, NumpyOfGpuTensor, IntegerProduct),
    *(MirroredByTheCpu, ReadBeforeArrival, GeneratorOfTheOtherGpu),
]


def adapted(cls: type[Method]) -> Tensor:
    """What a method gives on the second batch, on a GPU."""
    method: Any = build_method(cls, small_vit().to("cuda"), num_classes=10, batch_size=8, params={})
    return [method.adapt(batch.to("cuda")) for batch in stream(count=2)][-1]


def bug_line(cls: type[Method]) -> int:
    lines, first = inspect.getsourcelines(cls)
    return first + next(number for number, text in enumerate(lines) if text.rstrip().endswith("# bug"))


@pytest.mark.parametrize("cls", PLANTED)
def test_a_planted_bug_is_named_with_its_line(cls: type[Method]) -> None:
    with SimulatedGpus(2), pytest.raises((RuntimeError, TypeError), match=r"at [\w/.]+:\d+\)$") as raised:
        adapted(cls)
    assert f"at simulated/test_planted_bugs.py:{bug_line(cls)})" in str(raised.value)


def test_a_sound_method_is_not_blamed() -> None:
    with restored(), SimulatedGpus(2):
        torch.backends.cudnn.allow_tf32 = False
        on_gpu = adapted(Sound).cpu()
    method: Any = build_method(Sound, small_vit(), num_classes=10, batch_size=8, params={})
    assert torch.equal(on_gpu, [method.adapt(batch) for batch in stream(count=2)][-1])
