"""What a script hands to `evaluate`: its model and its batches, checked with one-line errors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import tee
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tta_bench.errors import UserError, third_party
from tta_bench.isolation.logits import Answer
from tta_bench.isolation.prepared import Cost, State
from tta_bench.measure.process import Outside
from tta_bench.method import Method
from tta_bench.models.source import SourceModel

SLACK = 1e-3  # by which resizing may leave [0, 1]
Labels = NDArray[np.int64]


class Batches:
    """A stream of (images, labels), iterated once; its code runs outside of what is measured."""

    def __init__(self, batches: Iterable[Any], outside: Outside) -> None:
        self._outside = outside
        self.promised = _length(batches)
        self.classes = 0  # known once the model has seen the first batch
        self.taken = 0
        if not isinstance(batches, Iterable):
            raise UserError(f"batches: expected an iterable of (images, labels), got {type(batches).__name__}")
        with outside.runs(), third_party("batches: fails at batch 1"):
            self._source = iter(batches)
            first = next(self._source, None)
        if first is None:
            raise UserError("batches: it is empty: expected at least one batch of (images, labels)")
        self._first: Any = first
        self.first, _ = _pair(first, "batch 1")
        self.size = len(self.first)
        self._last = self.size

    def next(self) -> tuple[Tensor, Labels] | None:
        """The next batch, checked; None at the end."""
        item, self._first = self._first, None
        if item is None:
            with self._outside.runs(), third_party(f"batches: fails at batch {self.taken + 1}"):
                item = next(self._source, None)
        if item is None:
            self._refuse_early_end()
            return None
        self.taken += 1
        where = f"batch {self.taken}"
        images, labels = _pair(item, where)
        if images.shape[1:] != self.first.shape[1:]:
            here, first = tuple(images.shape[1:]), tuple(self.first.shape[1:])
            raise UserError(f"{where}: images have shape {here}, those of the first have {first}: use one size")
        if len(images) > self.size:
            raise UserError(f"{where}: has {len(images)} images, the first has {self.size}: use one batch size")
        if self._last < self.size:
            raise UserError(f"{where}: follows one of {self._last} images: only the last may be smaller than the first")
        self._last = len(images)
        return images, checked_labels(labels, len(images), self.classes, where)

    def _refuse_early_end(self) -> None:
        if self.promised is not None and self.taken < self.promised:
            raise UserError(f"batches: ended after {self.taken} of the {self.promised} batches that its length states")


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except (TypeError, NotImplementedError):  # a generator, or a DataLoader that does not know
        return None


def _pair(item: Any, where: str) -> tuple[Tensor, Any]:
    """Images and labels of a batch; the images are checked."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        got = f"{len(item)} values" if isinstance(item, tuple | list) else type(item).__name__
        raise UserError(f"{where}: expected (images, labels), got {got}")
    images, labels = item
    return checked_images(images, where), labels


def checked_images(images: Any, where: str) -> Tensor:
    """Images as floats in [0, 1]; UserError for anything else."""
    if not isinstance(images, Tensor) or images.dim() != 4 or not len(images):
        got = f"shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise UserError(f"{where}: expected images as a Tensor of shape [B, C, H, W], got {got}")
    if not images.is_floating_point():
        raise UserError(f"{where}: images are {images.dtype}: expected floats in [0, 1], so divide bytes by 255")
    low, high = (float(value) for value in torch.aminmax(images.detach()))
    if not (low >= -SLACK and high <= 1 + SLACK):
        raise UserError(
            f"{where}: images go from {low:.3g} to {high:.3g}, expected [0, 1]: drop Normalize and give mean= and std="
        )
    return images.detach().to(torch.float32).contiguous()


def checked_labels(labels: Any, images: int, classes: int, where: str) -> Labels:
    """Labels as whole numbers of the model's classes; UserError for anything else."""
    if isinstance(labels, list | tuple | np.ndarray):
        with third_party(f"{where}: expected {images} whole numbers as labels"):
            labels = torch.as_tensor(labels)
    if (
        not isinstance(labels, Tensor)
        or labels.is_floating_point()
        or labels.dtype == torch.bool
        or tuple(labels.shape) != (images,)
    ):
        got = f"{labels.dtype} of shape {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
        raise UserError(f"{where}: expected {images} whole numbers as labels, got {got}")
    low, high = (int(value) for value in torch.aminmax(labels))
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise UserError(f"{where}: label {wrong} is out of range: the model has {classes} classes, from 0")
    return labels.cpu().numpy().astype(np.int64)


def prepared_model(
    model: nn.Module, method: object, mean: Sequence[float] | None, std: Sequence[float] | None
) -> SourceModel:
    """A copy of the model, from which fresh copies are made; the model of a built method is reset first."""
    if not isinstance(model, nn.Module):
        raise UserError(f"model: expected an nn.Module, got {type(model).__name__}")
    if (mean is None) != (std is None):
        raise UserError("mean and std: give both, or neither for a model that normalises its input itself")
    if isinstance(method, Method):
        if method.model is not model:
            raise UserError("model: the method is built on another one: give method.model, or the method's class")
        if mean is not None:
            raise UserError("mean: the method is built already, so its model must normalise its input itself")
        method.reset()
    with third_party("model: cannot be copied"):
        network = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    centre, spread = _per_channel("mean", mean), _per_channel("std", std)
    if 0 in spread:
        raise UserError("std: holds 0, by which images would be divided")
    return SourceModel("", network, 0, centre, spread, "")


def _per_channel(name: str, values: Sequence[float] | None) -> tuple[float, ...]:
    with third_party(f"{name}: expected a number for each channel, as in [0.5, 0.5, 0.5]"):
        return () if values is None else tuple(map(float, values))


def class_count(model: SourceModel, images: Tensor, device: torch.device) -> int:
    """The number of a model's classes, from its logits of a batch; UserError for any other output."""
    channels = images.shape[1]
    if len(model.mean) not in (0, channels) or len(model.std) not in (0, channels):
        raise UserError(f"mean and std: expected {channels} numbers each, got {len(model.mean)} and {len(model.std)}")
    with third_party("model: fails on the first batch"), torch.no_grad():
        network = model.fresh(device, shares_weights=True).eval()
        logits = network(images.to(device))
    if isinstance(logits, Tensor) and logits.dim() == 2 and len(logits) == len(images):
        if not logits.isfinite().all():
            raise UserError("model: returned NaN or infinite logits for the first batch: check weights, mean and std")
        return logits.shape[1]
    got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
    raise UserError(f"model: returned {got}, expected logits [B, classes] in one Tensor: wrap it in a module that does")


class SourceBatches:
    """The host of a pass, for what a method learns from source images; its stream comes batch by batch instead."""

    def __init__(self, name: str, method: Method, source: Iterable[Any] | None, classes: int, outside: Outside) -> None:
        is_ready = bool(method.prepared_state())  # by the caller
        if method.needs_source and source is None and not is_ready:
            raise UserError(f"method '{name}' learns from source images first: give source=, batches of clean images")
        self._outside, self._classes = outside, classes
        self._wanted = source if method.needs_source else None
        self._images, self._labels = tee(self._checked()) if method.uses_labels else (self._checked(), iter(()))

    def known(self) -> tuple[State, Cost] | None:
        return None

    def source(self) -> Iterator[Tensor] | None:
        return None if self._wanted is None else (images for images, _ in self._images)

    def source_labels(self) -> Iterator[Tensor]:
        return (labels for _, labels in self._labels)

    def batches(self) -> Iterator[Tensor]:
        return iter(())

    def learned(self, state: State, cost: Cost) -> None:
        """Nothing to keep."""

    def answer(self, answer: Answer) -> None:
        """Answers are taken batch by batch."""

    def _checked(self) -> Iterator[tuple[Tensor, Tensor]]:
        with self._outside.runs():
            batches = iter(self._wanted or ())
        number = 0
        while True:
            with self._outside.runs():
                item = next(batches, None)
            if item is None:
                return
            number += 1
            where = f"source batch {number}"
            images, labels = (item, None) if isinstance(item, Tensor) else _pair(item, where)
            plain = checked_images(images, where).cpu()
            known = (
                np.zeros(0, np.int64) if labels is None else checked_labels(labels, len(plain), self._classes, where)
            )
            yield plain, torch.from_numpy(known)


@contextmanager
def bar(what: str, total: int | None, *, enabled: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on a terminal or in a notebook; the function takes the accuracy after each batch."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    seen = enabled and (console.is_terminal or console.is_jupyter)
    columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not seen) as shown:
        task = shown.add_task(what, total=total)
        yield lambda accuracy: shown.update(task, advance=1, description=f"{what} {100 * accuracy:.1f} %")
