"""A large board: how long its site takes to build, how large its pages are, and how fast Chromium paints them.

    python -m benchmarks.board_size RUN [--submissions 200] [--suites 6]

RUN is a real run folder with Source and another row. Each submission is that row under another name with some of its
predictions changed, once for each of several suites that differ in name alone. Prints one line per measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml

from tests.support.chromium import Chromium, chromium
from tests.support.records import changed, changed_cell
from tta_bench.board.site import build
from tta_bench.measure.metrics import scores_of
from tta_bench.records.predictions import Predictions, digest
from tta_bench.records.record import Record
from tta_bench.records.store import Store

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a large board.")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--submissions", type=int, default=200, help="for each suite")
    parser.add_argument("--suites", type=int, default=6)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep board and site in this new folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = args.keep or Path(temporary)
        make_board(args.run, home / "board", args.submissions, args.suites)
        start, before = time.perf_counter(), os.times()
        built = build(home / "board", home / "site")
        took, after = time.perf_counter() - start, os.times()
        own, pool = sum(after[:2]) - sum(before[:2]), sum(after[2:4]) - sum(before[2:4])
        load = os.getloadavg()[0]
        print(f"build: {took:.1f} s at a load of {load:.1f}, {built.submissions} submissions, {built.pages} pages")
        print(f"  of the processors: {own:.1f} s by one process, then {pool:.1f} s by {os.cpu_count()} processes")
        files = [path for path in (home / "site").rglob("*") if path.is_file()]
        print(f"largest page: {built.largest / 1000:.0f} kB; site: {sum(p.stat().st_size for p in files) / 1e6:.0f} MB")
        shared = sum((home / "site" / name).stat().st_size for name in ("site.js", "site.css", "early.js"))
        print(f"scripts and style that every page loads: {shared / 1000:.0f} kB")
        with chromium(Path(temporary) / "profile") as browser:
            for name, ms in paints(browser, home / "site"):
                print(f"first contentful paint of {name}: {ms:.0f} ms (median of 5)")


def make_board(run: Path, board: Path, submissions: int, suites: int) -> None:
    """Packed runs are written straight away: saving 1,200 run folders first would take far longer than the build."""
    store = Store.open(run)
    records = [record for record in store.records() if record.status == "done"]
    label = next(record.label for record in records if record.cell.spec.method != "source")
    chosen = [(record, store.predictions(record)) for record in records if record.label in ("source", label)]
    source = [(record, found) for record, found in chosen if record.label == "source"]
    other = [(record, found) for record, found in chosen if record.label == label]
    for number in range(suites):
        suite = f"suite-{number}"
        same = [file for pair in source for file in _files(*pair, suite, "source")]
        for submission in range(submissions):
            _submit(other, same, board / f"method-{submission}-{suite}", submission, suite)


def _submit(
    chosen: list[tuple[Record, Predictions]], same: list[tuple[str, bytes]], folder: Path, number: int, suite: str
) -> None:
    rng = np.random.default_rng([number, int(suite[-1])])
    share = 0.3 * rng.random()  # of the predictions that change
    files = [("manifest.json", json.dumps({"suite": suite}).encode()), *same]
    for record, predictions in chosen:
        changed = rng.random(len(predictions)) < share
        guess = np.where(changed, rng.permutation(predictions.prediction), predictions.prediction)
        files += _files(record, replace(predictions, prediction=guess.astype(np.int32)), suite, f"method-{number}")
    content = {
        "id": folder.name,
        "title": f"Perturbed predictions, share {share:.3f}.",
        "who": {"name": f"Group {number % 40}", "link": "https://example.org"},
        "package": {"name": "tta-made", "version": "1.0", "link": "https://example.org"},
        "division": "open" if number % 4 == 3 else "closed",
        "chosen_on": ["defaults"],
        "date": f"2026-{1 + number % 12:02d}-{1 + number % 28:02d}",
    }
    folder.mkdir(parents=True)
    (folder / "submission.yaml").write_text(yaml.safe_dump(content))
    with zipfile.ZipFile(folder / "run.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, member in files:
            archive.writestr(name, member)


def _files(record: Record, predictions: Predictions, suite: str, method: str) -> list[tuple[str, bytes]]:
    """A record and its predictions as a packed run has them."""
    cell, content = changed_cell(record.cell, suite=suite, method=method), predictions.to_bytes()
    scores = scores_of(predictions, cell.spec.tasks)
    made = changed(record, cell=cell, label=method, predictions=digest(content), scores=scores)
    return [(f"cells/{cell.slug}.json", made.to_bytes()), (f"cells/{cell.slug}.npy", content)]


def paints(browser: Chromium, site: Path) -> Iterator[tuple[str, float]]:
    """The largest page of each kind, opened from disk five times."""
    for kind in ("index.html", "suites/*.html", "tasks/*.html", "methods/*.html"):
        page = max(site.glob(kind), key=lambda path: path.stat().st_size)
        took = []
        for _ in range(5):
            browser.open(page)
            browser.wait(f"{PAINT} > 0")
            took.append(browser.run(PAINT))
        yield str(page.relative_to(site)), sorted(took)[2]


if __name__ == "__main__":
    main()
