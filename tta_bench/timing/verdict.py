"""The two gates: exact counts without noise, and ratios that fail only if their whole interval does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tta_bench.measure.baseline import Timing
from tta_bench.measure.ratio import Ratio
from tta_bench.timing.ratio import LEVEL

Outcome = Literal["ok", "more work", "slower", "cannot tell", "new"]
FAILS: tuple[Outcome, ...] = ("more work", "slower")


@dataclass(frozen=True)
class Verdict:
    """The result of a check for one method, as a sentence."""

    method: str
    outcome: Outcome
    sentence: str
    change: Ratio | None = None  # of the ratio to Source; 1.1 is ten percent slower

    def __str__(self) -> str:
        return f"{self.method}: {self.sentence}"


def status(verdicts: list[Verdict]) -> int:
    """The exit status: 1 if a method fails, 3 if one is undecided, else 0."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return 1 if outcomes & set(FAILS) else 3 if "cannot tell" in outcomes else 0


def exact_gate(method: str, then: Timing, now: Timing) -> Verdict | None:
    """Any increase of a count fails, whatever the clock says."""
    changes = {name: (then.counts[name] / then.images, now.counts[name] / now.images) for name in now.counts}
    more = [_count(name, *pair) for name, pair in changes.items() if pair[1] > pair[0]]
    if not more:
        return None
    hint = f"; {why}" if (why := changed_settings(then, now)) else ""
    return Verdict(method, "more work", f"more work per image than the baseline: {', '.join(more)}{hint}")


def _count(name: str, then: float, now: float) -> str:
    return f"{name} {then:.4g} → {now:.4g}"


def changed_settings(then: Timing, now: Timing) -> str:
    """The settings that differ from the baseline's, in words; empty if none do."""
    keys = sorted(then.settings.keys() | now.settings.keys())
    differ = [key for key in keys if then.settings.get(key) != now.settings.get(key)]
    shown = ", ".join(f"{key} {then.settings.get(key)} → {now.settings.get(key)}" for key in differ)
    return f"its settings changed: {shown}" if differ else ""


@dataclass(frozen=True)
class RatioGate:
    """Fails if the whole interval of the change lies above the tolerance."""

    tolerance: float
    noise: Ratio  # of two identical runs: an unbiased machine's interval contains 1

    def outcome(self, change: Ratio) -> Outcome:
        if change.low > (1 + self.tolerance) * (1 + self.noise.bias):
            return "slower"
        return "ok" if change.high < 1 + self.tolerance else "cannot tell"

    def decides(self, change: Ratio) -> bool:
        return self.outcome(change) != "cannot tell"

    def verdict(self, method: str, change: Ratio, detail: str) -> Verdict:
        outcome = self.outcome(change)
        sure = f"{LEVEL:.0%} interval {_percent(change.low)} to {_percent(change.high)}"
        limit = f"{self.tolerance:.1%}".replace("%", " %").replace(".0 ", " ")
        words = {
            "ok": "faster" if change.high < 1 else "no slower",
            "slower": f"slower by more than {limit}",
            "cannot tell": f"cannot tell whether it is slower by more than {limit}",
        }[outcome]
        return Verdict(method, outcome, f"{words}: {_percent(change.value)} ({sure}), {detail}", change)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %" if math.isfinite(ratio) else "∞"


def missing(then: Mapping[str, Timing], now: Mapping[str, Timing], where: str) -> list[Verdict]:
    """Verdicts on methods that the other side does not have; they fail nothing."""
    sentence = f"is new: {where} does not have it, so there is nothing to compare"
    return [Verdict(name, "new", sentence) for name in now if name not in then]
