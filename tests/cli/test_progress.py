"""The table that grows during a run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.support.records import make_failure, make_record
from tta_bench.cli.progress import progress
from tta_bench.cli.run_progress import LiveWatcher, watch


def live(width: int = 100) -> LiveWatcher:
    watcher = LiveWatcher(6, Console(file=io.StringIO(), force_terminal=True, width=width))
    for method, task, seed, top1 in (
        ("source", "fog", 0, 0.5), ("source", "fog", 1, 0.7), ("source", "snow", 0, 0.1), ("tent", "fog", 0, 0.65),
    ):  # fmt: skip
        watcher.on_record(make_record(method, top1, task=task, seed=seed), is_new=True)
    return watcher


def text(watcher: LiveWatcher) -> list[list[str]]:
    console = Console(file=io.StringIO(), width=200)
    console.print(watcher.table())
    return [line.split() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_rows_fill_as_cells_end() -> None:
    assert text(live()) == [
        ["method", "fg", "snw", "Avg.", "so", "far"],
        ["source", "60.0", "10.0", "35.0"],
        ["tent", "65.0", "…", "65.0"],
    ]


def test_a_narrow_screen_shows_averages() -> None:
    assert text(live(width=30))[1] == ["source", "35.0"]


def test_a_failure_is_reported_and_leaves_the_table_unchanged() -> None:
    watcher = live()
    watcher.on_record(make_failure("sar", "it broke"), is_new=True)
    assert "it broke" in watcher.console.file.getvalue()  # type: ignore[attr-defined]
    assert len(text(watcher)) == 3


@pytest.mark.parametrize(("terminal", "lines"), [(True, 0), (False, 1)])
def test_a_pipe_gets_a_line_for_each_cell(terminal: bool, lines: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with watch(1, console) as watcher:
        watcher.on_record(make_record("source", 0.5), is_new=True)
        watcher.stop()
    assert console.file.getvalue().count("[1/1] source") == lines  # type: ignore[attr-defined]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_job_shows_how_far_it_is(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with progress(console, "epochs", lines=50) as shown:
        for epoch in range(1, 201):
            shown.update("training", epoch, 200, f"loss {1 / epoch:.3f}")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "loss 0.005" in text
    assert ("training: 200 of 200 epochs, loss 0.005" in text) == (not terminal)
    assert terminal or text.count("\n") == 51  # the first epoch, then every fourth


def test_queued_workers_are_shown() -> None:
    watcher = live()
    watcher.on_queue(2, "")
    assert watcher.bars.tasks[watcher.all].fields["note"] == "2 workers queued"
    watcher.on_queue(2, "ReqNodeNotAvail, UnavailableNodes:gpu[01-40], Reserved for maintenance")
    assert watcher.bars.tasks[watcher.all].fields["note"] == "2 workers queued: ReqNodeNotAvail, [...]"
    watcher.on_queue(0, "")
    assert watcher.bars.tasks[watcher.all].fields["note"] == ""
    file = io.StringIO()
    with watch(1, Console(file=file)) as plain:
        for workers, why in ((1, ""), (1, ""), (1, "Resources"), (1, ""), (1, "Resources"), (0, ""), (1, "Priority")):
            plain.on_queue(workers, why)
    said = ["1 worker queued", "1 worker queued: Resources", "1 worker queued: Priority"]
    assert file.getvalue().splitlines() == said, "each reason once each time the queue fills"


@pytest.mark.parametrize("by_worker", [False, True])
def test_a_pipe_hears_from_a_long_cell_every_30_seconds(monkeypatch: pytest.MonkeyPatch, by_worker: bool) -> None:
    now = 1000.0
    monkeypatch.setattr("tta_bench.cli.progress.time.monotonic", lambda: now)
    console = Console(file=io.StringIO(), width=100)
    with watch(1, console) as watcher:
        one = watcher.of_worker(0) if by_worker else watcher
        one.on_start(make_record("sar", task="fog").cell.spec, 640)
        for now in (1010.0, 1031.0, 1040.0, 1062.0):
            one.on_batch(int(now) - 1000, 0.5)
    assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "sar on fog, seed 0: 31 of 640 images, 50.0 % so far",
        "sar on fog, seed 0: 62 of 640 images, 50.0 % so far",
    ]
