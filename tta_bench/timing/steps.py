"""Adapt steps on fixed batches: what is timed, here or in a child process with another revision.

As a script it serves steps to a parent: one JSON line in, one out (`python steps.py WORKLOAD`). It may then import
another revision of the harness, so it imports few names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.isolation.adapter import Adapter, Setup
from tta_bench.measure.clock import step_watch
from tta_bench.measure.cost import CostCounter
from tta_bench.measure.flops import TOLERATED, uncounted_forwards
from tta_bench.models.source import load

# An older revision without this name is refused at once; a checkout installed for development would lend it the rest.
_ = build_method
COUNTS = ("sample_forwards", "sample_backwards", "optimizer_steps")


@dataclass(frozen=True)
class Workload:
    """The same few batches for every method; plain data, so that it can be saved for another process."""

    model: str
    num_classes: int
    class_mask: tuple[int, ...] | None
    batch_size: int
    device: str
    threads: int
    methods: dict[str, tuple[str, dict[str, Any]]]  # by label: the method and its settings
    batches: list[Tensor] = field(repr=False)
    source: list[Tensor] = field(repr=False)  # for methods that need some
    source_labels: list[Tensor] = field(default_factory=list, repr=False)


class Steps:
    """A method's adapt steps over the batches; every pass starts from the source weights."""

    def __init__(self, workload: Workload, label: str) -> None:
        torch.set_num_threads(workload.threads)
        self.label = label
        name, settings = workload.methods[label]
        device = torch.device(workload.device)
        self._adapter = Adapter(
            Setup(
                method=name,
                settings=settings,
                model=load(workload.model),
                num_classes=workload.num_classes,
                class_mask=workload.class_mask,
                batch_size=workload.batch_size,
                device=device,
            )
        )
        self.method = self._adapter.method
        self.batches = [batch.to(device) for batch in workload.batches]
        self._watch = step_watch(device)
        with naming(label):
            source, labels = ([t.to(device) for t in found] for found in (workload.source, workload.source_labels))
            self._adapter.prepare(source, labels)
            self.counts = self._count(workload.num_classes)
            self.method.reset()
            if self._count(workload.num_classes) != self.counts:
                raise ValueError("after reset() the same batches take another number of passes or steps")
            self.method.reset()
            uncounted = uncounted_forwards(self._adapter.model, self._adapter.adapt, self.batches[0])
            images = sum(map(len, self.batches))
            self.counts["uncounted_forwards"] = round(uncounted) * images if uncounted > TOLERATED else 0

    def _count(self, num_classes: int) -> dict[str, int]:
        """The exact counts of one untimed pass."""
        with CostCounter(self._adapter.model) as cost:
            for batch in self.batches:
                logits = self._adapter.adapt(batch)
                if not isinstance(logits, Tensor) or logits.shape != (len(batch), num_classes):
                    got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
                    raise ValueError(f"adapt returned {got}, expected logits of shape {(len(batch), num_classes)}")
                if not logits.isfinite().all():
                    raise ValueError("adapt returned NaN or infinite logits")
        return {name: getattr(cost, name) for name in COUNTS}

    def __call__(self, number: int) -> float:
        """Seconds of one step; a pass starts from the source weights, so every pass does the same work."""
        with naming(self.label):
            if number == 0:
                self.method.reset()
            with self._watch:
                self._adapter.adapt(self.batches[number])
        return self._watch.laps.pop()


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Any exception of a method becomes a one-line UserError that names it."""
    try:
        yield
    except (Exception, SystemExit) as error:  # third-party code may raise anything
        line = " ".join(str(error).split()) or "no message"
        raise UserError(f"method '{label}' failed: {type(error).__name__}: {line}") from error


def serve(path: Path, answer: Callable[[Any], None]) -> None:
    """Build methods and run steps as the parent requests, until it closes the pipe."""
    workload = Workload(**torch.load(path, weights_only=True))
    steps: dict[str, Steps] = {}
    for line in sys.stdin:
        label, number = json.loads(line)
        try:
            if label not in steps:
                steps[label] = Steps(workload, label)
            answer(steps[label].counts if number is None else steps[label](number))
        except UserError as error:
            answer({"error": str(error)})


if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a method prints must not mix with the answers
    serve(Path(sys.argv[1]), lambda value: print(json.dumps(value), file=channel, flush=True))
