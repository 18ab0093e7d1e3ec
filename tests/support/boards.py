"""A small suite, a board for it, and submissions that hold in every respect, made without running anything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.honest import honest_record
from tests.support.records import changed, changed_cell, keep
from tta_bench.board.check import check
from tta_bench.board.review import Review
from tta_bench.board.submission import FILE, RUN, Entry, Package, Who, read_board, write_entry
from tta_bench.measure.metrics import scores_of
from tta_bench.packed.pack import pack
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.suites import suite as suites
from tta_bench.suites.suite import Suite
from tta_bench.verify import reference, streams

TASKS = ("contrast", "brightness")
SUITE = Suite(
    name="two-digits",
    about="two tasks of the embedded digits",
    data={"kind": "digits-c", "severity": 5},
    tasks=TASKS,
    model="digits-vit",
    batch_size=32,
    methods={"source": {}, "tent": {"lr": 0.03}},
)
OTHER = replace(SUITE, name="two-digits-holdout", tasks=("saturate", "spatter"))
SEEDS = (0, 1, 2)
SETTINGS = {"strength": 0.2}
ENTRY = Entry(
    id="mine",
    title="Averages logits over batches",
    who=Who("Ada Stranger", "https://example.org/ada"),
    package=Package("tta-bench-mine", "1.0", "https://example.org/mine"),
    division="closed",
    chosen_on=(OTHER.name,),
    date="2026-01-31",
    settings={"mine": SETTINGS},
)
Change = Callable[[Record, Predictions], tuple[Record, Predictions]]


def library() -> suites.Library:
    """The installed suites and the two of these tests."""
    return suites.Library({"two-digits": {"tests": SUITE}, OTHER.name: {"tests": OTHER}, **_installed().claims})


_installed = suites.library
expected = cache(streams._expected.__wrapped__)  # the original keeps fewer streams than this suite has


def whole_record(method: str, task: str, seed: int) -> tuple[Record, Predictions]:
    """A record of one stream of the small suite: Source at its reference, others two points better."""
    name = json.dumps((SUITE.name, [task], "normal", {}, seed, None, SUITE.data))
    stream = expected(name, None)
    source, base = honest_record(method, task)
    share = _references()[json.dumps(SUITE.data, sort_keys=True), source.cell.found.weights, "", task]
    count = len(stream.index)
    score = share + 0.02 * (method != "source")
    right = np.arange(count) * 7 % count < round(score * count)
    off = 1 + sum(map(ord, method)) % 7  # another method is wrong in another way
    predictions = replace(
        base,
        index=stream.index.astype(np.int32),
        label=stream.label.astype(np.int32),
        prediction=np.where(right, stream.label, (stream.label + off) % 10).astype(np.int32),
        in_top5=right,
        brier=np.where(right, 0.1, 1.5).astype(np.float32),
    )
    settings: dict[str, Any] = {"mine": SETTINGS, "tent": {"lr": 0.03, "momentum": 0.9, "steps": 1}}.get(method, {})
    cell = changed_cell(
        source.cell, suite=SUITE.name, seed=seed, stream=stream.digest, images=stream.images, settings=settings
    )
    return changed(source, cell=cell, label=method), predictions


_references = reference.references


def whole_run(folder: Path, methods: Sequence[str] = ("source", "mine")) -> Path:
    """A complete run of the small suite."""
    store = Store.create(folder, SUITE.name)
    for method in methods:
        for task in TASKS:
            for seed in SEEDS:
                keep(store, *whole_record(method, task, seed))
    store.note_command(["tta-bench", "run"], TASKS, methods)
    return folder


def submit(run: Path, folder: Path, entry: Entry = ENTRY, **changes: Any) -> Path:
    """A submission of this run."""
    entry = replace(entry, **{"id": folder.name, **changes})
    pack(run, folder / RUN)
    write_entry(entry, folder / FILE)
    return folder


def changed_run(run: Path, out: Path, change: Change, method: str = "mine", every: bool = False) -> Path:
    """A copy of a run in which one cell of a row, or every one, is forged with fresh digests."""
    old, new = Store.open(run), Store.create(out, SUITE.name)
    left = 10**6 if every else 1
    for record in old.records():
        predictions = old.predictions(record)
        if record.label == method and left:
            left -= 1
            record, predictions = change(record, predictions)
        new.save(record, predictions)
    new.note_command(["tta-bench", "run"], TASKS, ["source", method])
    return out


def signed(record: Record, predictions: Predictions, **changes: Any) -> tuple[Record, Predictions]:
    return changed(replace(record, scores=scores_of(predictions, record.cell.spec.tasks)), **changes), predictions


def refused(folder: Path, name: str, words: str, board: Path | None = None) -> Review:
    """Check that a submission is refused for this reason, and that the comment says how to fix it."""
    review, _ = check(folder, read_board(board) if board else ())
    found = [problem for problem in review.problems if problem.check == name]
    assert any(words in problem.text for problem in found), review.problems
    assert not review.accepted
    comment = review.comment()
    assert "### To fix" in comment
    assert "How to fix it" in comment
    plain = re.sub("`[^`\n]+`", "", comment)  # code shows markup as it is
    assert "<script" not in plain.replace("\\<script", "")
    return review
