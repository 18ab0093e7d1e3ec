"""Live streams: which batches a method adapts to, exactly, and who answers the others."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from tests.methods.test_method_contract import built, every_method
from tests.support.records import changed, changed_cell, make_cell, make_record
from tests.support.small import stream
from tests.support.works import CPU, read_spec, requests, works
from tta_bench import registry
from tta_bench.cli.main import parser
from tta_bench.errors import CellFailed, UserError
from tta_bench.isolation.host import run_cell
from tta_bench.isolation.standby import copied
from tta_bench.method import Method
from tta_bench.records.live import Live, schedule_digest
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.report.rows import compare
from tta_bench.runs.bind import Binder
from tta_bench.runs.options import RunOptions
from tta_bench.runs.spec import specs
from tta_bench.streams.schedule import Schedule
from tta_bench.suites import suite


def adapted(live: Live, costs: list[tuple[int, int]], batches: int | None = None) -> list[int]:
    """The batches that a schedule adapts to, if batch i would cost costs[i] passes of single images."""
    schedule = Schedule(live)
    for forwards, backwards in costs[:batches]:
        if schedule.next() == "adapt":
            schedule.spend(forwards, backwards, 100)
    return schedule.adapted


def test_twice_the_cost_sees_exactly_half() -> None:
    assert adapted(Live(1), [(200, 0)] * 100) == list(range(0, 100, 2))
    assert adapted(Live(0.5), [(200, 0)] * 100) == list(range(100))
    assert adapted(Live(0), [(900, 900)] * 100) == list(range(100))


def test_one_percent_slower_misses_one_in_a_hundred() -> None:
    seen = adapted(Live(1), [(101, 0)] * 1010)
    assert len(seen) == 1000
    assert seen[99:101] == [99, 101]
    assert len(adapted(Live(1), [(100, 0)] * 1010)) == 1010


def test_a_backward_costs_its_factor_exactly() -> None:
    """1 + 1.2 × 1 = 2.2 batches: 10 of 22. With binary fractions the carry would drift."""
    assert len(adapted(Live(1), [(100, 100)] * 22_000)) == 10_000
    assert len(adapted(Live(1, backward=2.0), [(100, 100)] * 3_000)) == 1_000
    assert len(adapted(Live(1, cost=2.5, clock="timing record 1"), [(100, 0)] * 100)) == 40


def test_idle_time_is_no_credit() -> None:
    cheap, dear = [(10, 0)] * 50, [(300, 0)] * 9
    assert adapted(Live(1), cheap + dear) == [*range(50), 50, 53, 56]


def released_loop(costs: list[float], speed: float) -> list[int]:
    """The rule of the released code: after an adaptation, ceil(eta × ratio) - 1 batches are not adapted to."""
    seen, delay = [], 0
    for number, cost in enumerate(costs):
        if delay > 0:
            delay -= 1
            continue
        seen.append(number)
        delay = max(0, math.ceil(speed * cost) - 1)
    return seen


def test_released_matches_the_published_loop() -> None:
    drawn = random.Random(0)
    for _ in range(300):
        speed = drawn.choice([0.25, 0.5, 1.0, 2.0])
        forwards = [drawn.randrange(25, 1000, 25) for _ in range(drawn.randrange(60))]  # quarters: exact as floats
        seen = adapted(Live(speed, "released"), [(count, 0) for count in forwards])
        assert seen == released_loop([count / 100 for count in forwards], speed)


@pytest.mark.parametrize("cost", [1, 2, 3, 6])
def test_whole_costs_give_the_published_set_with_carry_too(cost: int) -> None:
    assert adapted(Live(1), [(100 * cost, 0)] * 40) == released_loop([cost] * 40, 1)


def test_adapt_every() -> None:
    schedule = Schedule(Live(adapt_every=3))
    turns = []
    for _ in range(7):
        turns.append(schedule.next())
        if turns[-1] == "adapt":
            schedule.spend(100, 0, 100)
    assert turns == ["adapt", "rest", "rest"] * 2 + ["adapt"]


class Counter(Method):
    """Makes two forwards per batch. Its logits name the number of adaptations that it has done."""

    passes_made: ClassVar[int] = 2

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.done = torch.zeros(())

    def adapt(self, batch: Tensor) -> Tensor:
        with torch.no_grad():
            for _ in range(self.passes_made):
                self.model(batch)
        self.done += 1
        return self.predict(batch)

    def predict(self, batch: Tensor) -> Tensor:
        logits = torch.zeros(len(batch), self.num_classes)
        logits[:, int(self.done) % self.num_classes] = 9.0
        return logits


class NoModel(Method):
    """Keeps no model, and does not say how to predict."""

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.model = None  # type: ignore[assignment]

    def adapt(self, batch: Tensor) -> Tensor:
        return torch.zeros(len(batch), self.num_classes)


class Uncopyable(Counter):
    def __deepcopy__(self, memo: object) -> Uncopyable:
        raise RuntimeError("one of a kind")


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    for name, cls in (("counter", Counter), ("no-model", NoModel), ("uncopyable", Uncopyable)):
        registry.add(name, cls)
    yield
    for name in ("counter", "no-model", "uncopyable"):
        registry.installed().given.pop(name, None)


def answers(suite: Path, live: Live | None, method: str = "counter", batches: int = 5) -> tuple[Record, list[int]]:
    """The record of a short stream, and the first prediction of each batch."""
    speed = {} if live is None else {"stream_speed": live.speed, "busy": live.busy}
    work = works(suite, methods=(method,), **speed, batch_size=8, limit=8 * batches)[0]
    record, predictions = run_cell(work)
    return record, predictions.prediction[::8].tolist()


def test_who_answers_while_the_method_is_busy(small_suite: Path) -> None:
    assert answers(small_suite, None)[1] == [1, 2, 3, 4, 5]
    record, stale = answers(small_suite, Live(1, "stale"))
    assert (record.measured.adapted_batches, stale) == ([0, 2, 4], [1, 0, 2, 1, 3])
    assert answers(small_suite, Live(1, "released"))[1] == [1, 1, 2, 2, 3]
    busy, _ = answers(small_suite, Live(1, "source"))
    source, _ = run_cell(works(small_suite, methods=("source",), batch_size=8, limit=40)[0])
    assert busy.measured.adapted_batches == [0, 2, 4]
    assert source.measured.adapted_batches is None


def test_source_answers_as_source_does(small_suite: Path) -> None:
    live = run_cell(works(small_suite, methods=("counter",), stream_speed=1, busy="source", batch_size=8, limit=40)[0])[
        1
    ]
    source = run_cell(works(small_suite, methods=("source",), batch_size=8, limit=40)[0])[1]
    assert live.prediction[8:16].tolist() == source.prediction[8:16].tolist()
    assert live.prediction[24:32].tolist() == source.prediction[24:32].tolist()


def test_a_record_says_what_was_seen(small_suite: Path) -> None:
    record, _ = answers(small_suite, Live(1))
    assert record.measured.seen == 0.6
    assert record.measured.sample_forwards == 2 * 24  # predictions are not counted
    assert [seconds > 0 for seconds in record.measured.batch_seconds] == [True, False, True, False, True]
    assert len(record.measured.schedule) == 16
    half, _ = answers(small_suite, Live(0.5))
    assert half.measured.seen == 1.0
    assert half.measured.schedule != record.measured.schedule


@pytest.mark.parametrize("method", ["tent", "sar"])
def test_threads_change_no_schedule(small_suite: Path, method: str) -> None:
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            record, predictions = answers(small_suite, Live(1), method, batches=8)
            found.append((record.measured.schedule, record.scores.top1, predictions))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_the_speed_is_in_the_key_and_a_waiting_stream_keeps_its_key() -> None:
    waiting = make_cell("tent")
    keys = {
        changed_cell(waiting, live=live).key
        for live in (None, Live(1), Live(2), Live(1, "source"), Live(adapt_every=2))
    }
    assert len(keys) == 5
    assert changed_cell(waiting, live=None).key == waiting.key


def test_time_per_image_is_that_of_the_images_adapted_to() -> None:
    """Ten batches of ten images, 1 ms per image, the first batch ten times slower."""
    record = make_record("m", live=Live(2), ms=1.0)
    assert changed(record, adapted_batches=[0, 4, 9]).steady_ms_per_image == pytest.approx(1)
    assert changed(record, adapted_batches=[0]).steady_ms_per_image == pytest.approx(10)
    assert changed(record, samples=95).steady_ms_per_image == pytest.approx(90 / 85)


def test_tables_refuse_to_mix_speeds() -> None:
    records = [make_record("source"), make_record("tent", live=Live(1))]
    with pytest.raises(UserError, match="different stream speeds.*without --stream-speed|--stream-speed 1"):
        compare(records)
    both = [make_record("source", live=Live(1)), make_record("tent", live=Live(1))]
    assert any("Live stream" in note for note in map(str, compare(both).notes))


def test_methods_that_cannot_join_are_refused(small_suite: Path) -> None:
    with pytest.raises(UserError, match="NoModel keeps no model and defines no predict"):
        Binder(CPU).refuse_unfit(requests(small_suite, methods=("no-model",), stream_speed=1))
    Binder(CPU).refuse_unfit(requests(small_suite, methods=("no-model",), stream_speed=1, busy="source"))
    with pytest.raises(CellFailed, match="Uncopyable cannot be copied .one of a kind.: use --busy source"):
        answers(small_suite, Live(1), "uncopyable")
    with pytest.raises(UserError, match="--compile needs --busy source or released"):
        RunOptions(stream_speed=1, compile=True)


def test_a_request_survives_json(small_suite: Path) -> None:
    (spec, _) = requests(small_suite, methods=("tent",), stream_speed=1, busy="source", backward_cost=2)
    assert read_spec(json.loads(json.dumps(spec.to_json()))) == spec
    with pytest.raises(UserError, match="request: live.*busy.*'tired'"):
        read_spec({**spec.to_json(), "live": {"speed": 1, "busy": "tired"}})
    with pytest.raises(UserError, match="request: live: speed: expected a number of at least 0"):
        read_spec({**spec.to_json(), "live": {"speed": -1}})


def test_adapt_every_is_a_setting_of_a_row(small_suite: Path) -> None:
    (spec,) = requests(small_suite, methods=("tent",), tasks=("contrast",), set={"tent": {"adapt-every": 2}})
    assert spec.live == Live(adapt_every=2)
    assert spec.label == "tent (adapt-every=2)"
    assert spec.settings.keys() <= {"lr"}
    with pytest.raises(UserError, match="method 'tent .*adapt-every: expected a whole number of at least 1, got 0"):
        requests(small_suite, methods=("tent",), set={"tent": {"adapt-every": 0}})


@every_method
def test_a_copy_keeps_the_old_weights(name: str) -> None:
    method, batches = built(name), stream(count=4, seed=3)
    method.adapt(batches[0])
    before = method.predict(batches[3])
    copy = copied(method)
    again = method.predict(batches[3])
    method.adapt(batches[1])
    torch.testing.assert_close(copy.predict(batches[3]), before, rtol=0, atol=0)
    torch.testing.assert_close(again, before, rtol=0, atol=0)


def chosen(*words: str) -> list[CellSpec]:
    args = parser().parse_args(["run", "--suite", "digits-c-5", "--stream-speed", "1", "--tasks", "fog", *words])
    return specs(suite.load(args.suite), RunOptions.of(vars(args)))


@pytest.fixture
def timing(tmp_path: Path) -> Path:
    """A timing record of Source and Tent, which takes 2.5 times as long."""
    source = {"settings": {}, "images": 1, "sample_forwards": 1, "sample_backwards": 0, "optimizer_steps": 0}
    tent = {**source, "settings": {"lr": 0.03, "steps": 1}, "ratio": {"value": 2.5, "low": 2.4, "high": 2.6}}
    workload = dict.fromkeys(("task", "device", "weights", "stream"), "x") | dict.fromkeys(("images", "batches"), 4)
    workload |= {"suite": "digits-c-5", "batch_size": 32, "threads": 1, "methods": ["source", "tent"], "set": []}
    content = {"format": 1, "workload": workload, "machine": {}, "noise_floor": None}
    file = tmp_path / "timing.json"
    file.write_text(json.dumps({**content, "methods": {"source": source, "tent": tent}}))
    return file


def test_a_timing_record_is_a_clock(timing: Path) -> None:
    source, live = (spec.live for spec in chosen("--methods", "source,tent", "--clock", str(timing)))
    assert source is not None
    assert live is not None
    assert (source.cost, live.cost) == (1.0, 2.5)
    assert live.clock.startswith("timing record ")
    assert len(adapted(live, [(100, 0)] * 100)) == 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "source,sar"], "has no method 'sar' .it has source, tent.: record it again"),
        (["--methods", "tent", "--batch-size", "8"], "recorded with batch size 32, but this run has 8"),
        (["--methods", "tent", "--suite", "digits-c-4"], "recorded with suite digits-c-5, but this run has digits-c-4"),
        (["--methods", "tent", "--backward-cost", "2"], "--backward-cost requires --clock counts"),
    ],
)
def test_a_timing_record_of_something_else_is_refused(timing: Path, words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        chosen("--clock", str(timing), *words)


def test_a_timing_record_of_other_settings_is_refused(timing: Path) -> None:
    timing.write_text(timing.read_text().replace("0.03", "0.5"))
    with pytest.raises(UserError, match="recorded 'tent' with lr=0.5, but this run has lr=0.03"):
        chosen("--methods", "tent", "--clock", str(timing))


def test_a_live_record_survives_its_file_and_a_changed_schedule_is_refused(small_suite: Path) -> None:
    record, _ = answers(small_suite, Live(1))
    assert Record.from_bytes(record.to_bytes(), "r.json") == record
    for changes in (
        {"adapted_batches": [0, 1, 2]},
        {"adapted_batches": [0, 2, 9], "schedule": schedule_digest([0, 2, 9])},
        {"adapted_batches": [0, 2], "schedule": schedule_digest([0, 2])},
        {"adapted_batches": None, "schedule": ""},
    ):
        with pytest.raises(UserError, match="r.json"):
            Record.from_bytes(replace(record, measured=replace(record.measured, **changes)).to_bytes(), "r.json")
