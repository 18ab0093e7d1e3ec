"""One method over one stream: a fresh model, a fresh method, one pass. Only `adapt` is inside the timer.

Batches come from a host, and answers go back to it. Nothing here has a label of the stream or a file of the run: the
host may be in another process (worker.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from tta_bench.data import loading
from tta_bench.measure import environment, flops, memory
from tta_bench.measure.clock import Stopwatch
from tta_bench.measure.cost import CostCounter
from tta_bench.measure.process import restored
from tta_bench.records.live import Live, schedule_digest
from tta_bench.runs.answers import Answer, answer_of
from tta_bench.runs.fairness import Watch, threads
from tta_bench.runs.prepared import Cost, State
from tta_bench.runs.session import Session, Setup
from tta_bench.runs.standby import Standby, require_predict
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


@dataclass(frozen=True)
class Measured:
    """The fields of a record that need no label."""

    score_point: str
    needs_source: bool
    resets: int
    reset_batches: list[int]
    seconds: dict[str, float]
    batch_seconds: list[float]
    adapted_batches: list[int] | None
    schedule: str
    sample_forwards: int
    sample_backwards: int
    prepared: str
    prepare_forwards: int
    prepare_backwards: int
    memory: dict[str, Any]
    environment: dict[str, Any]
    remarks: list[str]


def adapt(setup: Setup, host: Host) -> Measured:
    """Adapt to all batches of a host. Exceptions of the method are passed on; bad logits raise CellFailed.

    Process state that the method changes is restored, so that it cannot affect another method's result.
    """
    with restored() as changed:
        measured = _adapt(setup, host)
    left = [f"changed {name} (restored)" for name in changed]
    return replace(measured, remarks=[*measured.remarks, *left])


def _adapt(setup: Setup, host: Host) -> Measured:
    device, present = setup.device, threads()
    memory.start(device)
    building, adapting = Stopwatch(device), Stopwatch(device)
    reading = Stopwatch(torch.device("cpu"))  # on a GPU, the next batch is copied meanwhile
    with building:
        session = Session(setup)
    method = session.method
    how, cost = _prepare(session, host)
    if cost is not None:
        memory.start(device)  # the memory of preparing once is not the memory of adapting

    live = setup.live or Live()
    require_predict(method, live)
    timetable, standby = Schedule(live), Standby(session, live)
    watch = Watch(method, session.model, present)
    reset_batches: list[int] = []
    laps: list[float] = []
    batch, images = torch.empty(0), 0
    with CostCounter(session.model) as counted, closing(loading.on_device(host.batches(), device)) as batches:
        while True:
            with reading:
                following = next(batches, None)
            if following is None:
                break
            batch, turn = following, timetable.next()
            if turn == "adapt":
                if timetable.may_miss:
                    standby.start()
                resets = method.resets
                before = counted.sample_forwards, counted.sample_backwards
                with watch.step(batch), adapting:
                    logits = session.adapt(batch)
                timetable.spend(counted.sample_forwards - before[0], counted.sample_backwards - before[1], len(batch))
                laps.append(adapting.laps[-1])
                if method.resets > resets:
                    reset_batches.append(len(laps) - 1)
            else:
                with counted.paused():
                    logits = standby.predict(batch, is_busy=turn == "busy")
                laps.append(0.0)
            host.answer(answer_of(logits, len(batch), setup.num_classes, after=images))
            images += len(batch)

    measured = Measured(
        score_point=method.score_point,
        needs_source=method.needs_source,
        resets=method.resets,
        reset_batches=reset_batches,
        seconds={
            "adapt": adapting.total,
            "first_batch": adapting.laps[0],
            "load": reading.total,
            "prepare": cost.seconds if cost else 0.0,
            "build": building.total,
        },
        batch_seconds=laps,
        adapted_batches=timetable.adapted if setup.live else None,
        schedule=schedule_digest(timetable.adapted) if setup.live else "",
        sample_forwards=counted.sample_forwards,
        sample_backwards=counted.sample_backwards,
        prepared=how,
        prepare_forwards=cost.sample_forwards if cost else 0,
        prepare_backwards=cost.sample_backwards if cost else 0,
        memory={**memory.peak(device), "prepare_bytes": cost.bytes if cost else 0},
        environment=environment.describe(device),
        remarks=watch.close(),
    )
    # The last batch again, when everything is measured: counting operations would slow a timed batch down.
    times = 0 if setup.compile else min(3, 1 + len(laps) // FEW)
    uncounted = max((flops.uncounted_forwards(session.model, session.adapt, batch) for _ in range(times)), default=0.0)
    remark = flops.remark(uncounted, method.computes_besides)
    return replace(measured, remarks=[*measured.remarks, *filter(None, [remark])])


def _prepare(session: Session, host: Host) -> tuple[str, Cost | None]:
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
