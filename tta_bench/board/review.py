"""What `board check` finds, and how it says so: a problem names its remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tta_bench.report.render import markdown, markdown_prose
from tta_bench.report.values import Table

SHOWN = 10  # problems of one kind that are listed

CHECKS = {
    "entry": "submission.yaml is complete, and the run is a packed run",
    "rows": "Source and at least one other row, with plain labels",
    "complete": "every row has every task of the suite with its seeds, whole and in its scenario",
    "files": "digests, keys and names of records and predictions agree",
    "scores": "accuracies and intervals follow from the predictions",
    "counts": "batches, times and dates are those of a run",
    "once": "each cell has one result",
    "suites": "data and version are those of the suite",
    "orders": "images come in the suite's order",
    "labels": "labels are those of the data",
    "images": "pixels are those that this machine makes",
    "weights": "source weights are known",
    "source": "Source scores its reference",
    "apart": "the process that adapted had no labels",
    "division": "model, batch size and precision are those of the suite (closed division)",
    "settings": "settings are declared, and follow the suite's rule in the closed division",
    "chosen": "settings were not chosen on what is scored",
    "package": "the package provides the methods",
    "others": "no row is another entry's",
    "rerun": "cells that ran again gave the same predictions",
}


@dataclass(frozen=True)
class Problem:
    """Why a submission is refused, and what to do about it."""

    check: str
    text: str
    remedy: str


@dataclass
class Review:
    """The outcome of a check. `open` are required points that could not be checked here."""

    name: str
    problems: list[Problem] = field(default_factory=list)
    open: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: Sequence[Table] = ()
    checked: set[str] = field(default_factory=set)

    @property
    def accepted(self) -> bool:
        return not self.problems and not self.open

    def refuse(self, check: str, text: str, remedy: str) -> None:
        self.problems.append(Problem(check, text, remedy))

    def sentence(self) -> str:
        """The outcome in one line."""
        if self.accepted:
            return f"{self.name}: accepted."
        problems, left = len(self.problems), len(self.open)
        if not problems:
            return f"{self.name}: not accepted yet, {left:,} points need a maintainer who has the data."
        return f"{self.name}: refused, {problems:,} problem{'s'[: problems > 1]}."

    def comment(self) -> str:
        """The review as Markdown, for a pull request. User text is escaped; @mentions are disabled."""
        lines = [f"## {'✅' if self.accepted else '❌'} {_safe(self.sentence())}", ""]
        for title, found in (("To fix", self.problems), ("Not checked here", self.open)):
            lines += [f"### {title}", "", *_listed(found), ""] if found else []
        if self.notes:
            lines += ["### Notes", "", *(f"- {_safe(note)}" for note in self.notes), ""]
        lines += [markdown(table).replace("@", "@\u200b") for table in self.tables]
        wrong = {problem.check for problem in (*self.problems, *self.open)}
        held = [f"- {CHECKS[check]}" for check in CHECKS if check in self.checked - wrong]
        lines += ["<details><summary>What holds</summary>", "", *held, "", "</details>", ""] if held else []
        lines += ["No code of the submission was run. What each check means: docs/board.md", ""]
        return "\n".join(lines)


def _listed(problems: Sequence[Problem]) -> list[str]:
    """Problems by their check, with each remedy once."""
    lines = []
    for check in CHECKS:
        found = [problem for problem in problems if problem.check == check]
        for problem in found[:SHOWN]:
            lines.append(f"- **{check}**: {_safe(problem.text)}")
        if len(found) > SHOWN:
            lines.append(f"- **{check}**: and {len(found) - SHOWN:,} more")
        for remedy in dict.fromkeys(problem.remedy for problem in found):
            lines.append(f"  - *How to fix it:* {_safe(remedy)}")
    return lines


def _safe(text: str) -> str:
    """Text in Markdown that is neither markup nor a mention; `code` stays code."""
    return markdown_prose(text).replace("@", "@\u200b")
