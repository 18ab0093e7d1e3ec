"""`board check`: everything that can be known about a submission without running its code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tta_bench.board import others, rows
from tta_bench.board.review import CHECKS, Problem, Review
from tta_bench.board.submission import FILE, RUN, TODO, Submission, read_submission
from tta_bench.errors import UserError
from tta_bench.report.current import SKEW
from tta_bench.suites import suite as suites
from tta_bench.suites.suite import Suite
from tta_bench.verify.findings import Audit, Finding
from tta_bench.verify.folders import Found, verify
from tta_bench.verify.tables import intervals

REQUIRED = ("files", "scores", "suites", "orders", "labels", "weights", "source")
DECLARED = ("weights", "source")  # in the open division a model of one's own has no published hash or score
PACK = f"pack the folder that `tta-bench run` wrote, as it is: `tta-bench pack DIR --out {RUN}`"
REMEDIES = {
    "files": PACK,
    "scores": PACK,
    "counts": PACK,
    "once": PACK,
    "suites": "run the suite as this version of tta-bench installs it",
    "orders": "run without changes to streams or seeds; the order follows from suite, task and seed",
    "labels": PACK,
    "images": "run the suite's own images, with the packages of constraints.txt",
    "weights": "run with the suite's model (no --model), installed from this version of tta-bench",
    "source": "something changes what the model sees: run Source in a fresh environment and compare",
    "apart": "run without `--in-process`, so that the method adapts in a process that has no labels",
    "rerun": "say on which machine and versions it ran, and whether the method draws random numbers of its own",
}
BY_HAND = "a maintainer runs `tta-bench board check … --data-root DIR` where the data is"


def check(
    folder: Path, board: Sequence[Submission] = (), root: Path | None = None, weights: Collection[str] = ()
) -> tuple[Review, list[Found]]:
    """Check one submission against its suite and the other entries; returns the records whose files are intact.

    `weights` are hashes of source weights that a maintainer knows, besides published ones and those on the board.
    UserError only where there is no such folder: everything else is part of the review.
    """
    if not folder.exists():
        raise UserError(f"{folder}: no such folder: a submission is a folder with {FILE} and {RUN}")
    review = Review(folder.resolve().name)
    review.checked.add("entry")
    found: list[Found] = []
    try:
        submission = read_submission(folder)
        suite = _suite(submission, review)
        if suite is not None:
            found = _check(submission, suite, board, root, weights, review)
    except UserError as error:
        review.refuse("entry", _short(str(error), folder), f"see docs/board.md and `tta-bench board schema` for {FILE}")
    return review, found


def _suite(submission: Submission, review: Review) -> Suite | None:
    """The suite that the run names; a problem if it is none of the installed ones."""
    name, entry = submission.suite, submission.entry
    texts = {"title": entry.title, "who": entry.who.name, "chosen_on": " ".join(entry.chosen_on)}
    texts |= {"package": entry.package if isinstance(entry.package, str) else entry.package.name}
    for key, text in texts.items():
        if TODO in text:
            review.refuse("entry", f"{key}: still to be filled in", f"replace {TODO} in {FILE}")
    if _is_future(submission.entry.date):
        review.refuse("entry", f"date: {submission.entry.date} is still to come", "write the date of today")
    if name not in suites.names():
        review.refuse("suites", f"suite '{name}' is not one of this board", "run one of `tta-bench list suites`")
        return None
    return suites.load(name)


def _is_future(text: str) -> bool:
    return text > (datetime.now(timezone.utc) + SKEW + timedelta(hours=14)).date().isoformat()  # east of us


def _check(
    submission: Submission,
    suite: Suite,
    board: Sequence[Submission],
    root: Path | None,
    weights: Collection[str],
    review: Review,
) -> list[Found]:
    entry, folder = submission.entry, submission.store.folder
    audit, found = verify([folder], root)
    take(audit, folder, review, is_open=entry.division == "open")
    if any(problem.check == "files" for problem in review.problems):
        return found  # rules about rows need all of them
    known = {*weights, *others.weights_of(suite.name, board)}
    if review.open and all(record.cell.found.weights in known for record in submission.records):
        review.open = [point for point in review.open if point.check != "weights"]
    review.checked.update(CHECKS.keys() - REMEDIES.keys())
    if entry.retraction:
        review.notes.append(f"retracted on {entry.retraction.date}: {entry.retraction.reason}")
    by_row = rows.check_rows(submission.records, review)
    rows.check_complete(by_row, suite, review)
    rows.check_division(entry, submission.records, suite, review)
    rows.check_settings(entry, by_row, suite, review)
    rows.check_package(entry, submission.records, review)
    rows.check_chosen(entry, submission.store, by_row, suite, review)
    others.check_others(submission, board, review)
    if not review.problems:
        review.tables = intervals([folder])
    return found


def take(audit: Audit, folder: Path, review: Review, is_open: bool = False) -> None:
    """Turn findings of `verify` or a rerun into problems, and required points that were not checked into open ones."""
    for finding in audit.findings:
        if finding.verdict == "fails":
            review.problems.append(_problem(finding, folder, REMEDIES[finding.check]))
        elif finding.verdict == "not checked":
            if finding.check in REQUIRED and not (is_open and finding.check in DECLARED):
                review.open.append(_problem(finding, folder, BY_HAND))
            elif (note := f"{finding.check}: not checked: {finding.text}") not in review.notes:
                review.notes.append(note)
    unknown = {finding.check for finding in audit.findings if finding.verdict == "not checked"}
    review.checked |= {finding.check for finding in audit.findings} - unknown


def _problem(finding: Finding, folder: Path, remedy: str) -> Problem:
    return Problem(finding.check, f"{_short(finding.where, folder)}: {_short(finding.text, folder)}", remedy)


def _short(text: str, folder: Path) -> str:
    """Text without the path of a temporary folder."""
    return text.replace(f"{folder}/", "").replace(str(folder), folder.name)
