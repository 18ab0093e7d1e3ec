"""The board as a static site: pages, scripts and data in one folder, for a web server or straight from disk.

`gather.py` reads the packed runs, `suites.py` ranks rows, `pages.py` fills the templates, `data.py` writes what scripts
load. Pages run only the site's own scripts, by their security policy, and ask for nothing else.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tta_bench.board.site.data import data_files
from tta_bench.board.site.gather import gather_runs
from tta_bench.board.site.pages import pages, text_of
from tta_bench.board.site.suites import suite_boards
from tta_bench.board.submission import FILE, RUN, Submission, read_board
from tta_bench.errors import UserError
from tta_bench.files import writing
from tta_bench.report import page
from tta_bench.report.metrics import metric_columns
from tta_bench.report.page import templates
from tta_bench.report.runs import Runs

MARK = ".tta-bench-board"  # in every site, so that a build replaces no other folder
SCRIPTS = (
    "random.js",
    "student.js",
    "autocorrelation.js",
    "stats.js",
    "data.js",
    "table.js",
    "compare.js",
    "cost.js",
    "method.js",
)


@dataclass(frozen=True)
class Built:
    """What a build made."""

    submissions: int
    suites: int
    pages: int
    largest: int  # bytes of the largest page


def build(board: Path, out: Path, title: str = "TTA board", metrics: Sequence[str] = ()) -> Built:
    """Write the site of a board; the folder `out` is replaced as a whole, and the same board gives the same bytes."""
    submissions = read_board(board)
    if not submissions:
        raise UserError(f"{board}: has no submissions: `tta-bench board check --help` says how one is made")
    _refuse_other(out)
    columns, _ = metric_columns(metrics, [], Runs([]))  # refuses an unknown one first
    boards = suite_boards(submissions, gather_runs(submissions, metrics))
    with writing(f"--out {out}"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as home:
            site = Path(home) / "site"
            sizes = [_write(site, name, text.encode()) for name, text in pages(boards, submissions, title, columns)]
            by_id = {submission.id: submission for submission in submissions}
            for one in boards:
                for name, content in data_files(one, by_id):
                    _write(site, name, content)
            for name, content in _assets():
                _write(site, name, content)
            _copy_evidence(site, submissions)
            if out.exists():
                shutil.rmtree(out)
            site.rename(out)
    return Built(len(submissions), len(boards), len(sizes), max(sizes))


def _refuse_other(out: Path) -> None:
    """Refuse to replace what is no site."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UserError(f"--out {out}: is not a folder: choose another")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise UserError(f"--out {out}: holds other files, and a build replaces its folder: choose another")


def _write(site: Path, name: str, content: bytes) -> int:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return len(content)


def _assets() -> Iterator[tuple[str, bytes]]:
    drawing, own = [page.text_of(name) for name in page.DRAWING], [text_of(name) for name in SCRIPTS]
    yield "site.js", templates.in_one_scope("\n".join([*drawing, *own])).encode()
    yield "early.js", text_of("early.js").encode()
    yield "site.css", (page.text_of("page.css") + text_of("site.css")).encode()
    yield MARK, b""


def _copy_evidence(site: Path, submissions: list[Submission]) -> None:
    for submission in submissions:
        target = site / "evidence" / submission.id
        target.mkdir(parents=True)
        for name in (FILE, RUN):
            shutil.copyfile(submission.folder / name, target / name)
