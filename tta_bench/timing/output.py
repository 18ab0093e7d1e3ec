"""A check's result as a table on the screen, Markdown for a pull request, and JSON for scripts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tta_bench.measure.baseline import Baseline
from tta_bench.timing.compare import Result
from tta_bench.timing.verdict import Verdict, status

MARKS = {"ok": "✅", "new": "➕", "cannot tell": "❔", "slower": "❌", "more work": "❌"}
HEADLINES = {
    0: "no method is slower",
    1: "a method is slower or does more work",
    3: "cannot tell for at least one method",
}
COUNTED = {0: "no method does more work", 1: "a method does more work"}  # if nothing was timed
COLUMNS = ("method", "verdict", "× Source", "± %", "forwards", "backwards", "steps", "ms/batch")


def headline(verdicts: list[Verdict]) -> str:
    """The result as a headline."""
    timed = any(verdict.change for verdict in verdicts)
    return f"Timing: {HEADLINES[status(verdicts)] if timed else COUNTED[status(verdicts)]}."


def rows(now: Baseline, verdicts: list[Verdict] | None = None) -> list[list[str]]:
    """A row per method in COLUMNS; counts are per image, steps per batch."""
    outcomes = {verdict.method: verdict.outcome for verdict in verdicts or ()}
    batches = now.workload.batches
    shown = []
    for name, timing in now.methods.items():
        ratio = timing.ratio
        shown.append(
            [
                name,
                outcomes.get(name, "–"),
                f"{ratio.value:.2f}" if ratio else "–",
                f"{100 * ratio.width:.1f}" if ratio else "–",
                f"{timing.sample_forwards / timing.images:.2f}",
                f"{timing.sample_backwards / timing.images:.2f}",
                f"{timing.optimizer_steps / batches:g}",
                f"{1000 * timing.seconds / batches:.1f}" if timing.seconds else "–",
            ]
        )
    return shown


def where(now: Baseline) -> str:
    """The workload and the machine, in one line."""
    work, machine = now.workload, now.machine
    threads = f"{work.threads} thread{'s' if work.threads > 1 else ''}"
    return (
        f"{work.suite}, {work.task}, {work.batches} batches of {work.batch_size}; "
        f"{machine['device_name']}, {threads}, torch {machine['packages']['torch']}, "
        f"tta-bench commit {machine['commit'] or 'none'}"
    )


def markdown(result: Result) -> str:
    """For a pull request's comment."""
    lines = [f"### {headline(result.verdicts)}", ""]
    lines += [f"- {MARKS[verdict.outcome]} {_escape(str(verdict))}" for verdict in result.verdicts]
    head = [name for name in COLUMNS if name != "verdict"]
    table = [[cell for i, cell in enumerate(row) if i != COLUMNS.index("verdict")] for row in rows(result.now)]
    lines += ["", f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|"]
    lines += [f"| {' | '.join(map(_escape, row))} |" for row in table]
    lines += ["", *(f"{_escape(note)}  " for note in result.notes), _escape(where(result.now)), ""]
    return "\n".join(lines)


def as_json(result: Result, asked: dict[str, Any]) -> str:
    """For scripts: the verdicts, the request and all figures."""
    data: dict[str, Any] = {
        **asked,
        "status": status(result.verdicts),
        "verdicts": [asdict(verdict) for verdict in result.verdicts],
        "notes": result.notes,
        "measured": asdict(result.now),
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
