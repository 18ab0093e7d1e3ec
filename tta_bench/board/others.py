"""A submission beside the board: rows that another entry has already, and scores that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from tta_bench.board.review import Review
from tta_bench.board.submission import Submission
from tta_bench.errors import UserError
from tta_bench.papers.baseline import BASELINE
from tta_bench.records.record import Record

Streams = dict[tuple[str, int], Record]  # of one row, by task and seed
NEW_ID = "choose another `id` and folder; to correct your own entry, keep its `who`"


def check_others(new: Submission, board: Sequence[Submission], review: Review) -> None:
    """Compare a submission with every entry of the board, which may hold an earlier state of it."""
    for old in board:
        if old.id == new.id:
            _check_earlier(new, old, review)
            continue
        try:
            if old.suite != new.suite:
                continue
            pairs = list(_same_rows(new, old))
        except UserError as error:
            review.notes.append(f"{old.id} on the board cannot be read: {error}")
            continue
        for mine, theirs in pairs:
            text = f"row {mine} has the same predictions as row {theirs} of {old.id}, by {old.entry.who.name}"
            if old.entry.who == new.entry.who:
                review.notes.append(text)
            else:
                review.refuse(
                    "others", text, "submit results of your own; a rerun of an entry is `board check --rerun`"
                )
    if new.entry.reruns and new.id not in {old.id for old in board}:
        remedy = "remove `reruns:`: whoever runs it again adds it with `board check --rerun N --by NAME`"
        review.refuse("others", "a new submission says that it ran again", remedy)


def _check_earlier(new: Submission, old: Submission, review: Review) -> None:
    """The same id: only its submitter changes an entry, and what changes is named."""
    if old.entry.who != new.entry.who:
        review.refuse("others", f"id {new.id} is taken, by {old.entry.who.name}", NEW_ID)
        return
    names = [name for name in vars(new.entry) if getattr(new.entry, name) != getattr(old.entry, name)]
    if names:
        review.notes.append(f"changes of the entry: {', '.join(names)}")
    try:
        mine, theirs = rows_of(new.records), rows_of(old.records)
    except UserError as error:
        review.notes.append(f"{old.id} on the board cannot be read: {error}")
        return
    for label in dict.fromkeys([*theirs, *mine]):
        before, after = _average(theirs.get(label)), _average(mine.get(label))
        if before != after:
            review.notes.append(f"row {label}: {before} on the board, {after} here")


def _same_rows(new: Submission, old: Submission) -> Iterator[tuple[str, str]]:
    """Labels of rows whose predictions are the same on every stream; Source is everybody's."""
    others = rows_of(old.records)
    for label, mine in rows_of(new.records).items():
        for their_label, theirs in others.items():
            if mine.keys() == theirs.keys() and all(_same(new, mine[key], old, theirs[key]) for key in mine):
                yield label, their_label


def rows_of(records: Sequence[Record]) -> dict[str, Streams]:
    """The finished records of each row but Source, by task and seed."""
    found: dict[str, Streams] = {}
    for record in records:
        if record.cell.spec.method != BASELINE and record.status == "done":
            found.setdefault(record.label, {})[record.cell.name, record.cell.spec.seed] = record
    return found


def _same(new: Submission, mine: Record, old: Submission, theirs: Record) -> bool:
    if mine.predictions == theirs.predictions:
        return True
    if mine.scores.task_top1 != theirs.scores.task_top1:  # most rows differ here: their files need no reading
        return False
    one, other = new.store.predictions(mine), old.store.predictions(theirs)
    return np.array_equal(one.whole("prediction"), other.whole("prediction"))


def weights_of(suite: str, board: Sequence[Submission]) -> set[str]:
    """The hashes of source weights that entries of this suite use."""
    found: set[str] = set()
    for old in board:
        with suppress(UserError):  # `check_others` names an entry that cannot be read
            found |= {record.cell.found.weights for record in old.records} if old.suite == suite else set()
    return found


def _average(row: Streams | None) -> str:
    if not row:
        return "none"
    return f"{100 * sum(record.scores.top1 for record in row.values()) / len(row):.2f} %"
