"""Builds a method on a fresh model, prepares it, and adapts batch by batch. The only place that does so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tta_bench.data import loading
from tta_bench.data.images import ImageSet
from tta_bench.errors import UserError
from tta_bench.measure import environment
from tta_bench.method import Method
from tta_bench.models.precision import autocast, compiled
from tta_bench.models.source import SourceModel
from tta_bench.records.asked import Asked
from tta_bench.records.live import Live
from tta_bench.registry import build_method
from tta_bench.streams.scenarios import PLAIN, Running


@dataclass(frozen=True)
class Setup(Asked):
    """Everything needed to build a method."""

    method: str
    settings: dict[str, Any]
    model: SourceModel
    num_classes: int
    class_mask: tuple[int, ...] | None
    batch_size: int
    device: torch.device
    model_name: str = ""  # by which another process can load the model
    live: Live | None = None  # None: the stream waits, and the method adapts to every batch
    running: Running = PLAIN
    probes: tuple[int, ...] = ()  # batches that are only predicted
    resets: tuple[int, ...] = ()  # batches before which the method is reset, beside those of `running`


def start(setup: Setup) -> None:
    """Make the device ready for a method, and the way in which it computes."""
    environment.start(setup.device, tf32=setup.tf32, deterministic=setup.deterministic)


class Adapter:
    """A fresh model and a fresh method on it; or a method that its caller has built, on the model that it has."""

    def __init__(self, setup: Setup, *, shares_weights: bool = False, built: Method | None = None) -> None:
        """With `shares_weights` the model's weights are not copied, so nothing may be adapted."""
        self.setup = setup
        start(setup)
        if built is not None:
            self.model, self.method = built.model, built
            return
        self.model = setup.model.fresh(setup.device, setup.class_mask, shares_weights=shares_weights)
        if setup.compile:
            self.model = compiled(self.model)
        self.method = build_method(
            setup.method,
            self.model,
            num_classes=setup.num_classes,
            batch_size=setup.batch_size,
            params=setup.settings,
        )
        if setup.live is not None or setup.running.skips:
            _require_predict(self.method, setup.live or Live(), skips=setup.running.skips)

    def prepare(self, source: Iterable[Tensor], labels: Iterable[Tensor] | None = None) -> None:
        """Give source batches to a method that needs them, and their labels to one that uses them."""
        if not self.method.needs_source:
            return
        with autocast(self.setup.device, self.setup.amp):
            if self.method.uses_labels:
                self.method.prepare(source, labels)
            else:
                self.method.prepare(source)

    def adapt(self, batch: Tensor) -> Tensor:
        """One step on a batch, in the requested precision."""
        with autocast(self.setup.device, self.setup.amp):
            return self.method.adapt(batch)

    @torch.no_grad()
    def known_scores(self, logits: Tensor) -> Tensor | None:
        """The method's own score of the images behind these logits, higher for known classes."""
        return self.method.known_scores(logits)


def _require_predict(method: Method, live: Live, *, skips: bool) -> None:
    """Refuse a method that could not answer a batch without adapting."""
    cls = type(method)
    is_default = cls.predict is Method.predict and cls.features is Method.features
    needs_it = (live.speed and live.busy != "source") or live.adapt_every > 1 or skips
    if needs_it and is_default and not isinstance(getattr(method, "model", None), nn.Module):
        raise UserError(
            f"{cls.__name__} keeps no model and defines no predict(batch), so it cannot answer without adapting: "
            f"define predict, or use --busy source or a stream without freeze and remember"
        )


def read(
    images: ImageSet, order: Iterable[NDArray[np.int64]], device: torch.device, workers: int | None = None
) -> loading.Batches:
    """Batches on the device, prefetched by `workers` processes, by default by as many as help."""
    count = loading.default_workers(images) if workers is None else workers
    return loading.batches(images, order, device, workers=count)


def source_batches(images: ImageSet, setup: Setup, workers: int | None = None) -> Iterator[Tensor]:
    """Source images in batches of the cell's size, in their own order."""
    with closing(read(images, in_order(images, setup.batch_size), setup.device, workers)) as batches:
        yield from batches


def source_labels(images: ImageSet, setup: Setup) -> Iterator[Tensor]:
    """The labels of these batches."""
    for positions in in_order(images, setup.batch_size):
        yield torch.from_numpy(images.labels[positions]).to(setup.device)


def in_order(images: ImageSet, size: int) -> list[NDArray[np.int64]]:
    """The positions of all images, in batches."""
    positions = np.arange(len(images.ids))
    return [positions[i : i + size] for i in range(0, len(positions), size)]
