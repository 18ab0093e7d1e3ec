"""What a table shows, in three sentences that are made from its records: gains, losses, costs."""

from __future__ import annotations

from collections.abc import Sequence

from tta_bench.report.column import Context
from tta_bench.report.costs import paired, times_other
from tta_bench.report.differences import BETTER, WORSE, Difference, difference
from tta_bench.report.rows import Comparison, Row
from tta_bench.report.runs import Runs

MOST = 3  # losses that are named one by one


def summary(comparison: Comparison, runs: Runs) -> list[str]:
    """Who beats Source and how sure that is, who falls below it and where, and what it costs; empty without Source."""
    base = next((row for row in comparison.rows if row.is_source and row.done), None)
    others = [row for row in comparison.rows if row is not base and row.done and base and paired(row.done, base.done)]
    if base is None or not others:
        return []
    found = [difference(comparison, base.label, row.label, runs) for row in others]
    return [_gains(found, base.label), _losses(found, base.label), _costs(others, base, comparison)]


def _gains(found: Sequence[Difference], base: str) -> str:
    ranked = sorted(found, key=lambda d: -d.overall.difference)
    clear = [_points(d) for d in ranked if d.overall.low > 0]
    worse = [_points(d) for d in ranked if d.overall.high < 0]
    unclear = [_points(d) for d in ranked if d.overall.low <= 0 <= d.overall.high]
    parts = []
    if clear:
        parts.append(f"{_listed(clear)} {_verb(clear, 'beats', 'beat')} {base}")
    if worse:
        parts.append(f"{_listed(worse)} {_verb(worse, 'loses', 'lose')} to {base}")
    if unclear:
        parts.append(f"{_listed(unclear)} {_verb(unclear, 'does', 'do')} not clearly differ from {base}")
    return f"On average {'; '.join(parts)} (points of accuracy, 95 % interval)."


def _losses(found: Sequence[Difference], base: str) -> str:
    """Tasks on which a method falls clearly below the baseline, the deepest fall first."""
    falls = [(task.b - task.a, d.b, task) for d in found for task in d.tasks if task.verdict == WORSE]
    rises = sum(d.count(BETTER) for d in found)
    cells = sum(len(d.tasks) for d in found)
    gain = f"Adapting clearly helps in {rises} of {cells} cells"
    if not falls:
        return f"{gain} and clearly harms in none."
    falls.sort(key=lambda fall: fall[0])
    named = [f"{label} on {task.task} ({100 * task.a:.1f} to {100 * task.b:.1f} %)" for _, label, task in falls[:MOST]]
    more = f", and {len(falls) - MOST} more" if len(falls) > MOST else ""
    return f"{gain} and harms in {len(falls)}: {', '.join(named)}{more}."


def _costs(others: Sequence[Row], base: Row, comparison: Comparison) -> str:
    timed = Context(comparison).timed
    ratios = [(times_other(paired(timed.get(r.label, []), timed.get(base.label, []))), r.label) for r in others]
    known = sorted((ratio, label) for ratio, label in ratios if ratio is not None)
    if not known:
        return f"Times relative to {base.label} are not known."
    words = [f"{label} {ratio:.1f}" for ratio, label in known]
    return f"Time per image as a multiple of {base.label}: {', '.join(words)}."


def _points(found: Difference) -> str:
    change = found.overall
    return f"{found.b} ({100 * change.difference:+.1f}, {100 * change.low:+.1f} to {100 * change.high:+.1f})"


def _verb(names: Sequence[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
