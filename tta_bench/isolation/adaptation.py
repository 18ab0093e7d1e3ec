"""One method over one stream: a fresh model, a fresh method, one pass. Only `adapt` is inside the timer.

Batches come from a host, and answers go back to it. Nothing here has a label of the stream or a file of the run: the
host may be in another process (child.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from tta_bench.data import loading
from tta_bench.isolation.adapter import Adapter, Setup, start
from tta_bench.isolation.logits import Answer, answer_of
from tta_bench.isolation.prepared import Cost, State
from tta_bench.isolation.side_effects import Watch, threads
from tta_bench.isolation.standby import Standby, require_predict
from tta_bench.measure import environment, flops, memory
from tta_bench.measure.clock import Stopwatch
from tta_bench.measure.cost import CostCounter
from tta_bench.measure.process import restored
from tta_bench.records.live import Live, schedule_digest
from tta_bench.records.record import Measured
from tta_bench.streams.schedule import Schedule

FEW = 50  # batches of a stream in which counting the operations of one batch more costs little


class Host(Protocol):
    """The side that has images and labels. Batches are bytes in host memory, each valid until the next is requested."""

    def known(self) -> tuple[State, Cost] | None:
        """What another cell learned from the same source images, and its cost."""

    def source(self) -> Iterator[Tensor] | None:
        """Batches of source images; None for a method that needs none."""

    def source_labels(self) -> Iterator[Tensor]:
        """The labels of these batches."""

    def batches(self) -> Iterator[Tensor]:
        """The batches of the stream."""

    def learned(self, state: State, cost: Cost) -> None:
        """The method has learned this from source images."""

    def answer(self, answer: Answer) -> None:
        """The method has answered the next batch."""


def adapt(setup: Setup, host: Host) -> Measured:
    """Adapt to all batches of a host. Exceptions of the method are passed on; bad logits raise CellFailed.

    Process state that the method changes is restored, so that it cannot affect another method's result.
    """
    start(setup)
    with restored() as changed:
        measured = _adapt(setup, host)
    left = [f"changed {name} (restored)" for name in changed]
    return replace(measured, remarks=[*measured.remarks, *left])


def _adapt(setup: Setup, host: Host) -> Measured:
    device, present = setup.device, threads()
    memory.start(device)
    building = Stopwatch(device)
    with building:
        session = Adapter(setup)
    method = session.method
    how, cost = _prepare(session, host)
    if cost is not None:
        memory.start(device)  # the memory of preparing once is not the memory of adapting
    seen = Pass(session, Watch(method, session.model, present))
    seen.run(host)
    measured = Measured(
        score_point=method.score_point,
        needs_source=method.needs_source,
        resets=method.resets,
        reset_batches=seen.reset_batches,
        seconds={
            "adapt": seen.adapting.total,
            "first_batch": seen.adapting.laps[0],
            "load": seen.reading.total,
            "prepare": cost.seconds if cost else 0.0,
            "build": building.total,
        },
        batch_seconds=seen.laps,
        adapted_batches=seen.timetable.adapted if setup.live else None,
        schedule=schedule_digest(seen.timetable.adapted) if setup.live else "",
        sample_forwards=seen.counted.sample_forwards,
        sample_backwards=seen.counted.sample_backwards,
        prepared=how,
        prepare_forwards=cost.sample_forwards if cost else 0,
        prepare_backwards=cost.sample_backwards if cost else 0,
        memory={**memory.peak(device), "prepare_bytes": cost.bytes if cost else 0},
        environment=environment.describe(device),
        remarks=seen.watch.close(),
    )
    return replace(measured, remarks=[*measured.remarks, *seen.uncounted_work()])


class Pass:
    """One pass of a method over a stream, and what it cost."""

    def __init__(self, session: Adapter, watch: Watch) -> None:
        live, device = session.setup.live or Live(), session.setup.device
        require_predict(session.method, live)
        self.session, self.watch = session, watch
        self.adapting = Stopwatch(device)
        self.reading = Stopwatch(torch.device("cpu"))  # on a GPU, the next batch is copied meanwhile
        self.counted = CostCounter(session.model)
        self.timetable, self._standby = Schedule(live), Standby(session, live)
        self.laps: list[float] = []
        self.reset_batches: list[int] = []
        self._last = torch.empty(0)

    def run(self, host: Host) -> None:
        """Answer all batches of a host."""
        setup, images = self.session.setup, 0
        with self.counted, closing(loading.on_device(host.batches(), setup.device)) as batches:
            while True:
                with self.reading:
                    batch = next(batches, None)
                if batch is None:
                    return
                turn = self.timetable.next()
                if turn == "adapt":
                    logits = self._adapt(batch)
                else:
                    with self.counted.paused():
                        logits = self._standby.predict(batch, is_busy=turn == "busy")
                    self.laps.append(0.0)
                host.answer(answer_of(logits, len(batch), setup.num_classes, after=images))
                images += len(batch)
                self._last = batch

    def _adapt(self, batch: Tensor) -> Tensor:
        counted, method = self.counted, self.session.method
        if self.timetable.may_miss:
            self._standby.start()
        resets = method.resets
        before = counted.sample_forwards, counted.sample_backwards
        with self.watch.step(batch), self.adapting:
            logits = self.session.adapt(batch)
        self.timetable.spend(counted.sample_forwards - before[0], counted.sample_backwards - before[1], len(batch))
        self.laps.append(self.adapting.laps[-1])
        if method.resets > resets:
            self.reset_batches.append(len(self.laps) - 1)
        return logits

    def uncounted_work(self) -> list[str]:
        """A remark if the method computes more than its passes show.

        It adapts to the last batch again, when everything is measured: counting operations slows a batch down.
        """
        session = self.session
        times = 0 if session.setup.compile else min(3, 1 + len(self.laps) // FEW)
        found = (flops.uncounted_forwards(session.model, session.adapt, self._last) for _ in range(times))
        remark = flops.remark(max(found, default=0.0), session.method.computes_besides)
        return [remark] if remark else []


def _prepare(session: Adapter, host: Host) -> tuple[str, Cost | None]:
    """Let a method learn from source images, or load what it learned in another cell; returns which, and its cost."""
    device, source = session.setup.device, host.source()
    if source is None:
        return "", None
    known = host.known()
    if known is not None:
        state, cost = known
        session.method.load_prepared_state({name: tensor.to(device) for name, tensor in state.items()})
        return "read", cost
    preparing = Stopwatch(device)
    with CostCounter(session.model) as counted, preparing, closing(loading.on_device(source, device)) as batches:
        session.prepare(batches, (labels.to(device) for labels in host.source_labels()))
    peak = int(memory.peak(device)["bytes"])
    cost = Cost(preparing.total, counted.sample_forwards, counted.sample_backwards, peak)
    host.learned(session.method.prepared_state(), cost)
    return "learned", cost
