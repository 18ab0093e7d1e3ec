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
from tta_bench.isolation.standby import Standby
from tta_bench.isolation.start import Start
from tta_bench.measure import environment, flops, memory
from tta_bench.measure.clock import Stopwatch
from tta_bench.measure.cost import CostCounter
from tta_bench.measure.process import restored
from tta_bench.method import Method
from tta_bench.records.live import Live, schedule_digest
from tta_bench.records.record import Measured
from tta_bench.streams.schedule import Schedule

WITNESSED = 100  # at most one image in so many is adapted to again, to count operations


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
        done = Pass(setup, host)
        done.run(host)
        measured = done.measured()
        measured = replace(
            measured,
            start_changed=done.start.differing(),
            remarks=[*measured.remarks, *done.uncounted_work()],
        )
    left = [f"changed {name} (restored)" for name in changed]
    return replace(measured, remarks=[*measured.remarks, *left])


class Pass:
    """One pass of a method over a stream, and what it cost. Building and preparing the method come first."""

    def __init__(self, setup: Setup, host: Host, built: Method | None = None) -> None:
        """A method that is `built` keeps its model; otherwise it gets a fresh one."""
        live, device, present = setup.live or Live(), setup.device, threads()
        memory.start(device)
        self._building = Stopwatch(device)
        with self._building:
            self.session = session = Adapter(setup, built=built)
        self._prepared, self._cost = _prepare(session, host)
        if self._cost is not None:
            memory.start(device)  # the memory of preparing once is not the memory of adapting
        self._watch = Watch(session.method, session.model, present, setup.model.network)
        self._adapting = Stopwatch(device)
        self.reading = Stopwatch(torch.device("cpu"))  # on a GPU, the next batch is copied meanwhile
        self.counted = CostCounter(session.model)
        self._timetable, self._standby = Schedule(live), Standby(session, live)
        self._laps: list[float] = []
        self._reset_batches: list[int] = []
        self._images = 0
        self.start = Start(setup)
        self._last = torch.empty(0)
        self._resets = 0  # of the method itself, before the stream last reset it

    def run(self, host: Host) -> None:
        """Answer all batches of a host."""
        with self.counted, closing(loading.on_device(host.batches(), self.session.setup.device)) as batches:
            while True:
                with self.reading:
                    batch = next(batches, None)
                if batch is None:
                    return
                host.answer(self.answer(batch))

    def answer(self, batch: Tensor) -> Answer:
        """Answer one batch on the device, and adapt to it; `counted` must be open."""
        if self._stream_resets(len(self._laps)):  # not timed
            self._resets = self.own_resets
            self.session.method.reset()
        freeze = self.session.setup.running.freeze_after
        is_frozen = freeze is not None and self._images >= freeze
        turn = self._timetable.next(is_frozen=is_frozen or len(self._laps) in self.session.setup.probes)
        if turn == "adapt":
            logits, score = self._adapt(batch)
        else:
            with self.counted.paused():
                logits = self._standby.predict(batch, is_busy=turn == "busy")
                score = self.session.known_scores(logits)
            self._laps.append(0.0)
        found = answer_of(logits, len(batch), self.session.setup.num_classes, after=self._images, score=score)
        self._images += len(batch)
        self.start.keep(batch, found)
        self._last = batch
        return found

    def _stream_resets(self, batch: int) -> bool:
        """Whether the stream resets the method before this batch."""
        setup, every = self.session.setup, self.session.setup.running.reset_every
        return batch in setup.resets or (every > 0 and batch > 0 and batch % every == 0)

    @property
    def own_resets(self) -> int:
        """How often the method itself has returned to the source weights."""
        return self._resets + self.session.method.resets

    def _adapt(self, batch: Tensor) -> tuple[Tensor, Tensor | None]:
        counted, method = self.counted, self.session.method
        if self._timetable.may_miss:
            self._standby.start()
        resets = method.resets
        before = counted.sample_forwards, counted.sample_backwards
        with self._watch.step(batch), self._adapting:
            logits = self.session.adapt(batch)
            score = self.session.known_scores(logits)
        self._timetable.spend(counted.sample_forwards - before[0], counted.sample_backwards - before[1], len(batch))
        self._laps.append(self._adapting.laps[-1])
        if method.resets > resets:
            self._reset_batches.append(len(self._laps) - 1)
        return logits, score

    def measured(self) -> Measured:
        """What was measured over all batches so far, one at least."""
        method, cost, setup = self.session.method, self._cost, self.session.setup
        skips = setup.live is not None or setup.running.skips
        return Measured(
            score_point=method.score_point,
            needs_source=method.needs_source,
            resets=self.own_resets,
            reset_batches=self._reset_batches,
            seconds={
                "adapt": self._adapting.total,
                "first_batch": self._adapting.laps[0],
                "load": self.reading.total,
                "prepare": cost.seconds if cost else 0.0,
                "build": self._building.total,
            },
            batch_seconds=self._laps,
            adapted_batches=self._timetable.adapted if skips else None,
            schedule=schedule_digest(self._timetable.adapted) if skips else "",
            sample_forwards=self.counted.sample_forwards,
            sample_backwards=self.counted.sample_backwards,
            prepared=self._prepared,
            prepare_forwards=cost.sample_forwards if cost else 0,
            prepare_backwards=cost.sample_backwards if cost else 0,
            memory={**memory.peak(self.session.setup.device), "prepare_bytes": cost.bytes if cost else 0},
            environment=environment.describe(self.session.setup.device),
            remarks=self._watch.close(),
        )

    def uncounted_work(self) -> list[str]:
        """A remark if the method computes more than its passes show.

        It adapts to the last batch again, when everything is measured: counting operations slows a batch down. Long
        streams repeat the batch up to three times. Short ones take a part of it, and all of it if the part is
        suspicious: work that a method does once per batch weighs more in a small one.
        """
        session, last = self.session, self._last
        if session.setup.compile:
            return []
        worth = self._images // WITNESSED
        if worth < len(last) and self._is_plain(last[: max(2, worth)]):
            return []
        times = max(1, min(3, worth // len(last)))
        found = max(flops.uncounted_forwards(session.model, session.adapt, last) for _ in range(times))
        remark = flops.remark(found, session.method.computes_besides)
        return [remark] if remark else []

    def _is_plain(self, few: Tensor) -> bool:
        """Whether the method shows no uncounted work on a few images."""
        try:
            return flops.uncounted_forwards(self.session.model, self.session.adapt, few) <= flops.TOLERATED
        except Exception:  # it may need more images than these; the whole batch it could take before
            return False


def _prepare(session: Adapter, host: Host) -> tuple[str, Cost | None]:
    """Let a method learn from source images, or load what it learned in another cell; returns which, and its cost."""
    device = session.setup.device
    if not session.method.needs_source or (source := host.source()) is None:
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
