"""What averages hide: collapse, the worst class, calibration, the worst order, and choices without labels."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.support.cli import Cli
from tests.support.records import changed, keep, make_failure, make_record
from tests.support.works import CPU, requests
from tta_bench import registry
from tta_bench.engines.start import run_here
from tta_bench.measure import confidence
from tta_bench.measure.collapse import collapsed_at, signals
from tta_bench.method import Method
from tta_bench.records.predictions import Predictions
from tta_bench.records.store import Store
from tta_bench.report import criteria, stress
from tta_bench.report.rows import compare
from tta_bench.report.runs import Runs
from tta_bench.report.stress import collapse_notes
from tta_bench.report.tables import orders_table, stress_table
from tta_bench.runs.bind import Binder
from tta_bench.runs.watcher import Watcher

LABELS = np.arange(400) % 10


def answers(prediction: Any, sure: Any = 0.9, label: Any = LABELS) -> Predictions:
    count = len(label)
    own = np.asarray(prediction, np.int32)
    probabilities = np.where(np.arange(10)[:, None] == own, sure, (1 - np.asarray(sure)) / 9)
    return Predictions(
        index=np.arange(count, dtype=np.int32),
        label=np.asarray(label, np.int32),
        prediction=own,
        task=np.zeros(count, np.int16),
        in_top5=own == label,
        confidence=np.broadcast_to(np.float32(sure), count).astype(np.float32),
        entropy=np.broadcast_to(np.float32(1) - np.float32(sure), count).astype(np.float32),
        brier=confidence.brier_scores(probabilities, np.asarray(label)),
    )


def test_signals_of_a_window() -> None:
    found = signals(np.array([0, 0, 0, 1]), np.array([0, 1, 2, 3]))
    assert found.share == 0.75
    assert found.distance == 0.5
    assert found.source_classes == pytest.approx(4)
    assert found.classes == pytest.approx(2 ** (0.75 * np.log2(4 / 3) + 0.25 * 2))


def test_a_collapse_is_found_at_its_batch() -> None:
    own = LABELS.copy()
    own[200:] = 3
    # The last 128 images have few classes once 200 + about 100 of them are the same.
    batch = collapsed_at(own, LABELS, 20)
    assert batch is not None
    assert 280 <= 20 * (batch + 1) <= 328
    assert collapsed_at(LABELS, LABELS, 20) is None


def test_a_collapse_lasts_from_its_batch_to_the_end() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        own = LABELS.copy()
        for start in rng.integers(len(own), size=2):
            own[start : start + rng.integers(1, 300)] = 3
        size, found = int(rng.integers(10, 90)), [False]
        for end in range(size, len(own) + size, size):
            last = slice(max(0, min(end, len(own)) - 128), end)
            few = signals(own[last], LABELS[last])
            found.append(min(end, len(own)) >= 128 and few.classes <= few.source_classes / 3)
        well = max(batch for batch, fell in enumerate(found) if not fell)  # the last one, counted from 1
        assert collapsed_at(own, LABELS, size) == (well if well < len(found) - 1 else None)


def test_a_method_that_recovers_has_not_collapsed() -> None:
    own = LABELS.copy()
    own[20:200] = 3
    assert collapsed_at(own, LABELS, 20) is None


def test_classes_one_after_the_other_are_no_collapse() -> None:
    ordered = np.repeat(np.arange(10), 40)
    assert collapsed_at(ordered, ordered, 20) is None


def test_a_source_with_few_classes_hides_a_collapse() -> None:
    assert collapsed_at(np.zeros(400, int), LABELS % 2, 20) is None


def test_confidence_measures() -> None:
    sure, right = np.array([0.9, 0.8, 0.6, 0.5]), np.array([True, False, True, False])
    probabilities = np.array([[0.9, 0.2], [0.1, 0.5], [0.0, 0.3]])  # of three classes for two images
    np.testing.assert_allclose(confidence.brier_scores(probabilities, np.array([0, 2])), [0.02, 0.04 + 0.25 + 0.49])
    np.testing.assert_allclose(confidence.brier_scores(probabilities, np.array([3, 9])), [0.82, 0.38])  # none of them
    np.testing.assert_allclose(confidence.risk_coverage(sure, right), [0, 1 / 2, 1 / 3, 1 / 2])
    np.testing.assert_allclose(confidence.risk_coverage(sure[::-1], right[::-1]), [0, 1 / 2, 1 / 3, 1 / 2])
    mean, accuracy, images = confidence.reliability(sure, right, bins=2)
    np.testing.assert_allclose(mean, [0.7])  # 0.5 is in the upper half
    np.testing.assert_allclose(accuracy, [0.5])
    assert images.tolist() == [4]
    assert confidence.class_accuracy(np.array([4, 4, 7]), np.array([True, False, True])) == {4: 0.5, 7: 1.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Source is right on nine of ten classes; `falls` collapses after half of the stream."""
    store = Store.create(tmp_path / "run", "s")
    source, falls = LABELS.copy(), LABELS.copy()
    source[LABELS == 7] = 1
    falls[200:] = 3
    for method, own in (("source", source), ("falls", falls)):
        for seed in (0, 1):
            record = changed(make_record(method, seed=seed, batch_size=20), samples=400, batch_seconds=[0.1] * 20)
            keep(store, record, answers(own))
    return store.folder


def test_streams_that_end_well_are_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(Store(folder), changed(make_record("holds", batch_size=20), samples=400), answers(LABELS))
    runs, read = Runs([folder]), []
    monkeypatch.setattr(Store, "predictions", lambda store, record: read.append(record.label))
    table = compare([record for record in runs.records if record.label != "falls"])
    assert collapse_notes(table, runs) == []
    assert read == []


def test_the_report_names_the_batch_of_a_collapse(folder: Path, cli: Cli) -> None:
    runs = Runs([folder])
    (note,) = map(str, collapse_notes(compare(runs.records), runs))
    assert note.startswith("WARNING falls collapsed on fog, seed 0, at batch 1")
    assert note.endswith("of 20 (2 of 2 streams).")
    status, shown, _ = cli("report", folder, "--stress", "--format", "terminal")
    assert status == 0
    assert "WARNING falls collapsed on fog" in shown
    assert "under stress" in shown
    cli("report", folder, "--stress")
    status, shown, _ = cli("verify", folder)
    assert "no table of tta-bench has this name" not in shown
    assert "is not what the records give" not in shown
    table = folder / "report/classes.csv"
    table.write_text(table.read_text().replace("100", "99", 1))
    status, shown, _ = cli("verify", folder)
    assert status == 1
    assert "classes.csv: is not what the records give" in " ".join(shown.split())


def test_the_stress_table(folder: Path) -> None:
    runs = Runs([folder])
    rows = dict(stress_table(compare(runs.records), runs).rows)
    worst, name, ece, brier, _, half, collapsed, _ = rows["source"]
    assert (worst.mean, name.word, half.mean) == (0.0, "7", pytest.approx(90.0))
    assert ece.mean == pytest.approx(0, abs=1e-4)
    spread = (0.1 / 9) ** 2  # of each of the classes that share the rest
    assert brier.mean == pytest.approx(0.9 * (0.01 + 9 * spread) + 0.1 * (0.81 + (1 - 0.1 / 9) ** 2 + 8 * spread))
    assert collapsed.word == "–"
    assert rows["falls"][6].word == "2/2"


def test_the_table_by_class(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs([folder])
    table = stress.class_table(compare(runs.records), runs)
    rows = {label: [value.mean for value in values] for label, values in table.rows}
    assert table.columns == tuple(map(str, range(10)))
    assert rows["source"] == [0.0 if name == 7 else 100.0 for name in range(10)]
    assert rows["falls"] == [100.0 if name == 3 else 50.0 for name in range(10)]
    monkeypatch.setattr(stress, "MOST_CLASSES", 1)
    worst = stress.class_table(compare(runs.records), runs)
    assert worst.columns == ("7",)
    assert "The 1 worst of 10 classes" in str(worst.notes[-1])


def test_a_run_keeps_the_table_of_orders(small_suite: Path, tmp_path: Path, cli: Cli) -> None:
    words = ("--methods", "source", "--tasks", "contrast", "--limit", "32", "--orders", "2", "--out", tmp_path / "run")
    status, shown, _ = cli("run", "--suite", small_suite, *words)
    assert status == 0
    assert "2 orders" in shown
    with (tmp_path / "run/report/orders.csv").open() as file:
        (row,) = csv.DictReader(file)
    _, again, _ = cli("run", "--suite", small_suite, *words[:-4], "--seeds", row["its seed"], *words[-2:])
    assert "Reused 1 of 1 cells" in again
    assert f"{float(row['worst']):.1f}" in again


def test_orders_show_the_worst_and_mark_what_falls_below_source() -> None:
    scores = {"source": [0.5, 0.5, 0.5], "up": [0.6, 0.7, 0.9], "down": [0.6, 0.4, 0.8]}
    records = [make_record(name, top1, seed=seed) for name, own in scores.items() for seed, top1 in enumerate(own)]
    rows = {label: [str(value) for value in values] for label, values in orders_table(compare(records)).rows}
    assert rows["up"] == ["60.0", "0", "70.0", "90.0", "73.3", "0/3"]
    assert rows["down"] == ["40.0", "1", "60.0", "80.0", "60.0", "1/3 ⚠"]
    assert rows["source"][-1] == "–"


def test_a_row_that_is_not_done_in_every_order_has_no_worst() -> None:
    done = [make_record(name, seed=seed) for name in ("source", "tent") for seed in (0, 1)]
    records = [*done, make_record("source", seed=2), make_failure("tent", "too slow", seed=2)]
    rows = {label: [str(value) for value in values] for label, values in orders_table(compare(records)).rows}
    assert rows["source"][0] == "50.0"
    assert set(rows["tent"]) == {"–"}


def test_criteria_choose_without_labels(tmp_path: Path) -> None:
    """Entropy prefers a collapsed method that is sure; information does not."""
    store = Store.create(tmp_path / "run", "s")
    rng = np.random.default_rng(0)
    good = np.where(rng.random(400) < 0.9, LABELS, 0)
    for lr, own, sure in ((0.1, good, 0.8), (0.2, np.zeros(400, int), 1.0), (0.01, LABELS // 2, 0.5)):
        keep(store, changed(make_record("m", settings={"lr": lr}), samples=400), answers(own, sure))
    runs = Runs([store.folder])
    found = compare(runs.records)
    chosen = {name: criteria.chosen(found, runs, name) for name in criteria.CRITERIA}
    labels = {name: row.first.cell.spec.settings["lr"] for name, row in chosen.items() if row}
    assert labels == {"accuracy": 0.1, "entropy": 0.2, "confidence": 0.2, "information": 0.1}
    table = dict(criteria.choice_table(found, runs).rows)
    assert table["accuracy"][2].mean == 0
    assert table["entropy"][2].mean > 70
    assert table["information"][2].mean == 0


def test_the_command_line_offers_every_criterion(cli: Cli) -> None:
    _, shown, _ = cli("tune", "--help")
    assert f"{{{','.join(criteria.CRITERIA)}}}" in shown


class Falls(Method):
    """Answers with one class for some batches, and as Source does for the others."""

    stuck: ClassVar[range] = range(0)

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.seen = 0

    def adapt(self, batch: Tensor) -> Tensor:
        self.seen += 1
        same = torch.eye(self.num_classes)[torch.zeros(len(batch), dtype=torch.long)]
        return same if self.seen - 1 in self.stuck else self.model(batch).detach()


class Listener(Watcher):
    """Keeps warnings, with the number of images that the cell had done."""

    def __init__(self) -> None:
        self.images = 0
        self.said: list[tuple[int, str]] = []

    def on_batch(self, images: int, accuracy: float) -> None:
        self.images = images

    def on_warning(self, text: str) -> None:
        self.said.append((self.images, text))


@pytest.mark.parametrize("recovers", [False, True])
def test_a_run_warns_of_a_collapse_while_the_cell_runs(small_suite: Path, tmp_path: Path, recovers: bool) -> None:
    Falls.stuck = range(8) if recovers else range(20)
    registry.add("falls", Falls)
    watcher = Listener()
    try:
        asked = requests(small_suite, methods=("source", "falls"), tasks=("brightness",), batch_size=16, limit=20 * 16)
        run_here(asked, {}, Binder(CPU), Store.create(tmp_path / "out", "small"), watcher)
    finally:
        registry.installed().given.pop("falls")
    (images, warning), *later = watcher.said
    assert images == 128
    assert warning == (
        "falls on brightness, seed 0 collapsed at batch 8 of 20: 100 % of its last 128 predictions are the same class"
    )
    recovered = "falls on brightness, seed 0 recovered from its collapse before the stream ended"
    assert later == ([(320, recovered)] if recovers else [])
