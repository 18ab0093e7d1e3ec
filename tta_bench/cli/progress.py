"""Progress of every command: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

LINE_EVERY = 30.0  # seconds: a slow job shows that it is alive


class Lines:
    """Progress as plain lines: about as many as `lines` for the whole job, and one every 30 s."""

    def __init__(self, console: Console, unit: str = "images", lines: int = 10) -> None:
        self.console = console
        self.unit = unit
        self.lines = lines
        self.shown = ("", 0)
        self.shown_at = time.monotonic()

    def update(self, what: str, done: int, total: int, note: str = "") -> None:
        step, now = (what, self.lines * done // total), time.monotonic()
        if step != self.shown or now - self.shown_at > LINE_EVERY:
            self.shown, self.shown_at = step, now
            self.show(what, done, total, note)

    def show(self, what: str, done: int, total: int, note: str) -> None:
        self.console.print(f"{what}: {done:,} of {total:,} {self.unit}{note and f', {note}'}", soft_wrap=True)


class Bar(Lines):
    """Progress as a bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.bars = Progress(*bar_columns(), console=console, transient=True)
        self.bar = self.bars.add_task("", total=None, note="")
        self.what = ""

    def update(self, what: str, done: int, total: int, note: str = "") -> None:
        if what != self.what:  # another job: its speed is its own
            self.what = what
            self.bars.reset(self.bar, description=what, total=total)
        self.bars.update(self.bar, completed=done, note=note)


@contextmanager
def progress(console: Console, unit: str = "images", lines: int = 10) -> Iterator[Lines]:
    """A bar on a terminal, removed at the end; lines elsewhere."""
    if not console.is_terminal:
        yield Lines(console, unit, lines)
        return
    bar = Bar(console)
    with bar.bars:
        yield bar


@contextmanager
def status_line(console: Console) -> Iterator[Callable[[str], None]]:
    """A function that shows the current step: in place on a terminal, nothing elsewhere."""
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("preparing") as shown:
        yield lambda text: shown.update(Text(text))  # a string would be read as markup


def bar_columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
