"""What a verification finds: for each check what holds, what fails, what is out of date, and what was not checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["holds", "fails", "stale", "not checked"]
SHOWN = 10  # failures of one check that are listed

CHECKS = {
    "files": "digests, keys, names and content of records and predictions agree",
    "scores": "accuracies and calibration errors follow from the predictions",
    "counts": "batches, times and dates are consistent",
    "once": "each cell has one result",
    "suites": "data and version match the suite of this name",
    "orders": "images come in the order of suite, task, scenario and seed",
    "labels": "labels match the data",
    "images": "pixels match the ones made on this machine",
    "weights": "source weights match the published ones",
    "source": "Source scores its reference",
    "tables": "tables in the report folder follow from the records",
    "apart": "the process that adapted had no labels",
    "rerun": "cells run again here gave the same predictions",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: a cell or a file."""

    check: str
    verdict: Verdict
    where: str
    text: str = ""


@dataclass
class Audit:
    """All findings of a verification."""

    findings: list[Finding] = field(default_factory=list)

    def holds(self, check: str, where: str, text: str = "") -> None:
        self.findings.append(Finding(check, "holds", where, text))

    def fails(self, check: str, where: str, text: str) -> None:
        self.findings.append(Finding(check, "fails", where, text))

    def stale(self, check: str, where: str, text: str) -> None:
        """Right when it was made; to be made again, but no reason for distrust."""
        self.findings.append(Finding(check, "stale", where, text))

    def unknown(self, check: str, where: str, why: str) -> None:
        self.findings.append(Finding(check, "not checked", where, why))

    def judge(self, check: str, where: str, complaint: str) -> None:
        """Note a failure if there is a complaint."""
        self.fails(check, where, complaint) if complaint else self.holds(check, where)

    @property
    def failures(self) -> list[Finding]:
        return self.of("fails")

    def of(self, verdict: Verdict) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == verdict]

    def lines(self) -> Iterator[tuple[Verdict, str]]:
        """The findings for a reader: each check in one line, and below it what fails or could not be checked."""
        for check, promise in CHECKS.items():
            found = [finding for finding in self.findings if finding.check == check]
            counts = Counter(finding.verdict for finding in found)
            failed = [finding for finding in found if finding.verdict == "fails"]
            if not found:
                continue
            order: tuple[Verdict, ...] = ("fails", "stale", "holds", "not checked")
            verdict = next(one for one in order if counts[one])
            yield verdict, f"{check}: {promise} ({_counted(counts)})"
            for finding in failed[:SHOWN]:
                yield "fails", f"  {finding.where}: {finding.text}"
            if len(failed) > SHOWN:
                yield "fails", f"  and {len(failed) - SHOWN:,} more"
            if check == "rerun":
                yield from (("holds", f"  {f.where}: {f.text}") for f in found if f.verdict == "holds")
            for quiet in ("stale", "not checked"):
                reasons = Counter(finding.text for finding in found if finding.verdict == quiet)
                for why, count in reasons.most_common(SHOWN):
                    yield quiet, f"  {quiet}, {count:,} times: {why}"

    def to_json(self) -> dict[str, Any]:
        """Failures and open checks; checks that hold are only counted."""
        counts = {check: dict(Counter(f.verdict for f in self.findings if f.check == check)) for check in CHECKS}
        shown = [vars(finding) for finding in self.findings if finding.verdict != "holds" or finding.text]
        return {"ok": not self.failures, "checks": {k: v for k, v in counts.items() if v}, "findings": shown}


def _counted(counts: Counter[Verdict]) -> str:
    words: dict[Verdict, str] = {"holds": "hold", "fails": "fail", "stale": "stale", "not checked": "not checked"}
    return ", ".join(f"{counts[verdict]:,} {word}" for verdict, word in words.items() if counts[verdict])
