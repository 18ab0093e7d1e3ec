"""The second witness of passes adapts to few images again, and still sees work outside the counted passes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.support.works import works
from tta_bench import Method, registry
from tta_bench.isolation.host import run_cell


class Noting(Method):
    """Source that notes the size of every batch."""

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        SIZES.clear()

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        SIZES.append(len(batch))
        self.beside(batch)
        return self.model(batch)

    def beside(self, batch: Tensor) -> None: ...


class Copied(Noting):
    """Computes with a copy of the model."""

    def beside(self, batch: Tensor) -> None:
        if not hasattr(self, "copy"):
            self.copy = copy.deepcopy(self.model)
        self.copy(batch)


class Late(Copied):
    """Does so from its third batch on."""

    def beside(self, batch: Tensor) -> None:
        if len(SIZES) > 2:
            super().beside(batch)


class OncePerBatch(Noting):
    """Has a fixed cost of a fifth of a forward per batch: little for many images, much for two."""

    def beside(self, batch: Tensor) -> None:
        self.model(batch.new_zeros(1, *batch.shape[1:])) if len(batch) > 2 else self._blocks()

    def _blocks(self) -> None:
        model: Any = copy.deepcopy(self.model)
        model(torch.zeros(8, 3, 32, 32))


class Demanding(Noting):
    """Needs many images."""

    def beside(self, batch: Tensor) -> None:
        if len(batch) < 16:
            raise ValueError("too few images")


SIZES: list[int] = []


@pytest.fixture(autouse=True)
def _given() -> Iterator[None]:
    registry.installed().given.update(noting=Noting, copied=Copied, late=Late, fixed=OncePerBatch, demanding=Demanding)
    yield
    registry.installed().given.clear()


def ran(suite: Path, method: str, limit: int = 192) -> tuple[list[int], list[str]]:
    """The sizes of the batches after the stream, and the remarks."""
    (work,) = works(suite, methods=(method,), limit=limit, tasks=("contrast",))
    record, _ = run_cell(work)
    return SIZES[limit // work.setup.batch_size :], record.measured.remarks


def test_an_honest_method_adapts_to_two_images_more(small_suite: Path) -> None:
    assert ran(small_suite, "noting") == ([2], [])


@pytest.mark.parametrize("method", ["copied", "late"])
def test_hidden_work_is_measured_on_the_whole_batch(small_suite: Path, method: str) -> None:
    sizes, remarks = ran(small_suite, method)
    assert sizes[0] == 2
    assert len(sizes) == 2
    assert sizes[1] > 2
    assert remarks == ["computes as much as 1.0 forwards per image outside the counted passes, and does not say why"]


def test_a_fixed_cost_per_batch_is_no_violation(small_suite: Path) -> None:
    sizes, remarks = ran(small_suite, "fixed")
    assert len(sizes) == 2, "the part of the batch was suspicious"
    assert remarks == []


def test_a_method_that_needs_many_images_gets_the_whole_batch(small_suite: Path) -> None:
    sizes, remarks = ran(small_suite, "demanding")
    assert (len(sizes), remarks) == (2, [])
