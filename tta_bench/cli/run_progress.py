"""Progress of a run: its growing table and bars on a terminal, a line for each cell elsewhere."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from tta_bench.cli.progress import LINE_EVERY, Lines, bar_columns
from tta_bench.records.record import Record
from tta_bench.records.spec import CellSpec
from tta_bench.report.names import columns
from tta_bench.runs.watcher import Watcher

MOST_BARS = 16  # more do not fit on a screen


class CellLines(Watcher):
    """Lines about the cell that runs: one every 30 s, so that a log shows that it is alive."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.cell = ("", 0)
        self.said_at = time.monotonic()

    def on_start(self, spec: CellSpec, images: int) -> None:
        self.cell, self.said_at = (f"{spec.label} on {spec.name}, seed {spec.seed}", images), time.monotonic()

    def on_batch(self, images: int, accuracy: float) -> None:
        if time.monotonic() - self.said_at > LINE_EVERY:
            self.said_at = time.monotonic()
            name, total = self.cell
            text = f"{name}: {images:,} of {total:,} images, {100 * accuracy:.1f} % so far"
            self.console.print(text, soft_wrap=True)


class RunWatcher(CellLines):
    """Counts cells and prints a line about each."""

    def __init__(self, cells: int, console: Console) -> None:
        super().__init__(console)
        self.cells = cells
        self.finished = 0
        self.kept = 0
        self.reused = 0
        self.caching = Lines(console)
        self.waits = False
        self.said: set[str] = set()  # why workers wait

    def on_cache(self, name: str, done: int, total: int) -> None:
        self.caching.update(f"caching {name}", done, total)

    def on_wait(self, cells: int) -> None:
        if not self.waits:
            self.waits = True
            self.console.print(f"Waiting for {cells} cells that other processes are running")

    def on_queue(self, workers: int, why: str) -> None:
        if not workers:
            self.said.clear()
        elif not self.said or (why and why not in self.said):  # reasons come and go
            self.console.print(_queued(workers, why), soft_wrap=True)
            self.said |= {"", why}

    def on_warning(self, text: str) -> None:
        self.console.print(f"WARNING {text}", style="bold red", soft_wrap=True)

    def on_record(self, record: Record, is_new: bool) -> None:
        self.finished += record.status == "done"
        self.kept += 1
        self.reused += not is_new
        if is_new:
            self.say(record)

    def say(self, record: Record) -> None:
        """Print a line about a cell that has ended."""
        self.console.print(f"[{self.kept:>{len(str(self.cells))}}/{self.cells}] {_line(record)}")

    def say_reused(self, advice: str) -> None:
        """Print how many results were reused, so that they are not mistaken for new ones."""
        if self.reused:
            self.console.print(f"Reused {self.reused} of {self.cells} cells ({advice}).")

    def of_worker(self, number: int) -> Watcher:
        return CellLines(self.console)

    def stop(self) -> None:
        """Remove bars from the screen."""


class WorkerBar(Watcher):
    """The bar of one of several workers."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.bar = bars.add_task("", total=None, note="", visible=False)

    def on_start(self, spec: CellSpec, images: int) -> None:
        self.bars.reset(self.bar, description=f"{spec.label} on {spec.name}", total=images, note="", visible=True)

    def on_batch(self, images: int, accuracy: float) -> None:
        self.bars.update(self.bar, completed=images, note=f"{100 * accuracy:.1f} %")

    def on_worker_end(self) -> None:
        self.bars.remove_task(self.bar)


class LiveWatcher(RunWatcher):
    """The table of finished cells, above bars for all cells and for the current one."""

    def __init__(self, cells: int, console: Console) -> None:
        super().__init__(cells, console)
        self.bars = Progress(*bar_columns(), console=console)
        self.all = self.bars.add_task("all cells", total=cells, note="")
        self.one = self.bars.add_task("", total=None, note="", visible=False)
        self.live = Live(self, console=console, refresh_per_second=4, transient=True)
        self.shown = 0.0
        self.cached = ("", 0)
        self.current: tuple[CellSpec, int] | None = None
        self.scores: dict[str, dict[str, list[float]]] = {}  # by label and stream, one for each seed

    def __rich__(self) -> Group:
        return Group(self.table(), self.bars)

    def table(self) -> Table:
        """Mean accuracy over seeds of what is finished; only averages where the screen is too narrow for all tasks."""
        tasks = list(dict.fromkeys(task for row in self.scores.values() for task in row))
        names = columns(tasks)
        fits = 22 + sum(max(len(name), 5) + 2 for name in names) <= self.console.width
        table = Table(box=None, pad_edge=False)
        for name in ("method", *(names if fits else ()), "Avg. so far"):
            table.add_column(name, justify="left" if name == "method" else "right", style="dim")
        for label, row in self.scores.items():
            means = [f"{100 * mean(row[task]):.1f}" if task in row else "…" for task in tasks] if fits else []
            average = mean(mean(seeds) for seeds in row.values())
            table.add_row(Text(label), *means, f"{100 * average:.1f}")
        return table

    def on_start(self, spec: CellSpec, images: int) -> None:
        self.current = spec, images
        self.bars.reset(self.one, description=f"{spec.label} on {spec.name}", total=images, note="", visible=True)

    def on_cache(self, name: str, done: int, total: int) -> None:
        if done == total:
            self.bars.update(self.one, visible=False)
            if self.current:
                self.on_start(*self.current)
        elif self.cached != (name, total):
            self.cached = name, total
            self.bars.reset(self.one, description=f"caching {name}", total=total, note="", visible=True)
        else:
            self.bars.update(self.one, completed=done)

    def on_batch(self, images: int, accuracy: float) -> None:
        if time.monotonic() - self.shown > 0.1:  # the screen is slower than a batch
            self.shown = time.monotonic()
            self.bars.update(self.one, completed=images, note=f"{100 * accuracy:.1f} %")

    def on_queue(self, workers: int, why: str) -> None:
        self.bars.update(self.all, note=_queued(workers, textwrap.shorten(why, 40)) if workers else "")

    def on_record(self, record: Record, is_new: bool) -> None:
        super().on_record(record, is_new)
        if record.status == "done":
            row = self.scores.setdefault(record.label, {})
            for task, accuracy in record.accuracies.items():
                row.setdefault(task, []).append(accuracy)
        self.bars.update(self.all, completed=self.kept)

    def say(self, record: Record) -> None:
        if record.status != "done":  # the table shows the others
            super().say(record)

    def of_worker(self, number: int) -> Watcher:
        return WorkerBar(self.bars) if len(self.bars.tasks) < MOST_BARS else Watcher()

    def stop(self) -> None:
        self.live.stop()


@contextmanager
def watch(cells: int, console: Console) -> Iterator[RunWatcher]:
    """A watcher that fits the screen; bars are removed when the run ends."""
    if not console.is_terminal:
        yield RunWatcher(cells, console)
        return
    watcher = LiveWatcher(cells, console)
    with watcher.live:
        yield watcher


def _queued(workers: int, why: str) -> str:
    return f"{workers} worker{'s'[: workers != 1]} queued{f': {why}' if why else ''}"  # short: it is beside a bar


def _line(record: Record) -> str:
    name = f"{record.label:<14} {record.cell.name}, seed {record.cell.spec.seed}"
    if record.status != "done":
        return f"{name}: FAILED: {record.reason}"
    return f"{name}: {100 * record.accuracy:.1f} % in {record.measured.seconds['adapt']:.1f} s"
