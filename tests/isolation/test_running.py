"""Streams that reset or freeze a method: what it answers is what a method run by hand in that way answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.works import works
from tta_bench.isolation.adapter import Adapter
from tta_bench.isolation.host import Work, run_cell
from tta_bench.records.record import Record
from tta_bench.verify.folders import _miscounted

SIZE = 16


def one(small_suite: Path, scenario: str, method: str = "tent", limit: int = 48) -> Work:
    return works(small_suite, methods=(method,), scenario=scenario, limit=limit, batch_size=SIZE)[0]


def by_hand(work: Work, resets: set[int], freeze: int | None = None) -> list[float]:
    """Confidences of a method that is reset before these batches and only predicts after so many images."""
    adapter, found, images = Adapter(work.setup), list[float](), 0
    for number, positions in enumerate(work.stream.batches(SIZE)):
        batch = torch.from_numpy(work.stream.images.read(positions)).float() / 255
        if number in resets:
            adapter.method.reset()
        frozen = freeze is not None and images >= freeze
        logits = adapter.method.predict(batch) if frozen else adapter.adapt(batch)
        found += logits.softmax(1).amax(1).tolist()
        images += len(batch)
    return found


@pytest.mark.parametrize(
    ("scenario", "resets", "freeze"),
    [
        ("normal+reset:batch", {1, 2}, None),
        ("normal+reset:2", {2}, None),
        ("continual+reset:task+border", {3}, None),
        ("normal+freeze:16", set(), 16),
    ],
)
def test_a_stream_resets_and_freezes_as_it_says(
    small_suite: Path, scenario: str, resets: set[int], freeze: int | None
) -> None:
    work = one(small_suite, scenario)
    work = replace(work, setup=replace(work.setup, settings={**work.setup.settings, "lr": 0.1}))
    record, found = run_cell(work)
    assert np.allclose(found.confidence, by_hand(work, resets, freeze), atol=1e-4)
    assert not np.allclose(found.confidence, by_hand(work, set()), atol=1e-2), "a plain stream gives something else"
    assert Record.from_bytes(record.to_bytes(), "file").measured == record.measured
    adapted = record.measured.adapted_batches
    assert adapted == ([0] if freeze else None)


def test_batches_that_end_with_their_task_are_timed_by_their_images(small_suite: Path) -> None:
    record, _ = run_cell(one(small_suite, "continual+border", "source", limit=20))
    laps = record.measured.batch_seconds
    assert len(laps) == 4  # 16 and 4 images of each of two tasks
    assert record.steady_ms_per_image == pytest.approx(1000 * sum(laps[1:]) / 24)
    assert _miscounted(record) == "", "verify accepts more batches than 40 images fill"
    plain, _ = run_cell(one(small_suite, "continual", "source", limit=20))
    few = replace(plain, measured=replace(plain.measured, batch_seconds=plain.measured.batch_seconds[:-1]))
    assert "its images make 3" in _miscounted(few)


SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in ("sar", "cotta", "t3a", "lame", "roid", "rmt", "memo")]


@pytest.mark.parametrize("method", ["tent", "eata", "rotta", *SLOWER])
def test_a_probe_changes_nothing(small_suite: Path, method: str) -> None:
    """Bit for bit, so a method's predictions for clean images do not touch its state."""
    plain, probed = (run_cell(one(small_suite, f"continual+border{more}", method)) for more in ("", "+remember:20"))
    is_task = probed[1].task < 2
    assert np.array_equal(probed[1].confidence[is_task], plain[1].confidence)
    assert np.array_equal(probed[1].index[is_task], plain[1].index)
    assert np.count_nonzero(~is_task) == 3 * 20
    assert probed[0].measured.sample_forwards == plain[0].measured.sample_forwards, "and costs nothing"
    assert probed[0].measured.adapted_batches == [2, 3, 4, 7, 8, 9]
    assert Record.from_bytes(probed[0].to_bytes(), "file").measured == probed[0].measured


def test_clean_images_are_a_task_of_their_own(small_suite: Path) -> None:
    work = one(small_suite, "forgetting", "source", limit=8)
    record, found = run_cell(work)
    assert list(record.scores.task_top1) == [*work.cell.spec.tasks]
    assert work.cell.spec.tasks[-1] == "clean"
    assert np.bincount(found.task).tolist() == [8, 8, 8]
