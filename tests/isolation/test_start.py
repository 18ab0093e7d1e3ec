"""A method's answers before its first update are compared with Source's, at no cost to what is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.support.records import make_record
from tests.support.works import works
from tta_bench import registry
from tta_bench.isolation import start
from tta_bench.isolation.host import run_cell
from tta_bench.method import Method
from tta_bench.records.record import Record
from tta_bench.report.rows import compare
from tta_bench.report.tables import accuracy_table
from tta_bench.testing import check_method, remarks_on


class Turned(Method):
    """Adapts nothing, and answers with the classes in reverse order."""

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.model.eval()

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        logits: Tensor = self.model(batch)
        return logits.flip(1)


class Late(Turned):
    """The same, after an update."""

    score_point = "post-update"


def test_the_record_counts_first_answers_unlike_source(small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_known", {})
    source, tent, sar = works(small_suite, methods=("source", "tent", "sar"), limit=64, tasks=("contrast",))
    assert [run_cell(work)[0].measured.start_changed for work in (tent, sar, source)] == [0, 0, 0]
    monkeypatch.setitem(registry.installed().given, "turned", Turned)
    record, _ = run_cell(replace(tent, setup=replace(tent.setup, method="turned", settings={})))
    # Of ten classes none is its own mirror image.
    assert record.measured.start_changed == tent.setup.batch_size
    assert record.measured.sample_forwards == record.scores.samples


def test_one_forward_serves_all_methods_of_a_stream(small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_known", {})
    asked: list[int] = []
    answers = start.source_answers
    monkeypatch.setattr(start, "source_answers", lambda setup, batch: asked.append(len(batch)) or answers(setup, batch))
    for work in works(small_suite, methods=("tent", "sar"), limit=64, tasks=("contrast", "brightness")):
        run_cell(work)
    assert len(asked) == 2
    monkeypatch.setattr(start, "_known", {})
    for work in works(small_suite, methods=("source", "tent"), limit=64, tasks=("contrast",)):
        run_cell(work)
    assert len(asked) == 2, "Source's own row is the answer"


def notes_of(*records: Record) -> list[str]:
    return [note.text for note in accuracy_table(compare([make_record("source"), *records])).notes]


def test_tables_remark_on_a_start_that_is_not_source() -> None:
    record = make_record("tent")
    moved = replace(record, measured=replace(record.measured, start_changed=7))
    size = record.cell.spec.batch_size
    said = f"before its first update, 7 of {min(size, 100)} answers differ from Source's (first batches of 1 stream)."
    assert any(said in note for note in notes_of(moved))
    other = make_record("sar")
    (both,) = (
        note
        for note in notes_of(moved, replace(other, measured=replace(other.measured, start_changed=7)))
        if "first update" in note
    )
    assert both.startswith("tent, sar: before their first update, 7 of ")
    for start_changed, point in ((0, "pre-update"), (None, "pre-update"), (7, "post-update")):
        measured = replace(record.measured, start_changed=start_changed, score_point=point)
        assert not any("first update" in note for note in notes_of(replace(record, measured=measured)))


def test_check_method_returns_the_remark() -> None:
    assert check_method("tent") == []
    assert remarks_on(Turned) == ["before its first update, 8 of 8 answers differ from Source's"]
    assert remarks_on(Late) == []
