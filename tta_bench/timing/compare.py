"""Records timings, and checks them against a baseline or another revision: builds pairs, times them, applies gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from tta_bench.measure import environment
from tta_bench.measure.baseline import Baseline, Timing
from tta_bench.measure.ratio import Ratio
from tta_bench.timing.measure import Budget, Pair, measure, noise
from tta_bench.timing.sides import LocalSide, Side, SideFailed
from tta_bench.timing.verdict import RatioGate, Verdict, changed_settings, exact_gate, missing
from tta_bench.timing.workload import REFERENCE, Bench, refuse_other_workload

PRECISE = 0.01  # half an interval's width at which a recording is good enough
ShowStatus = Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """How much slower a method may be, and how long to measure."""

    tolerance: float
    budget: Budget
    show: ShowStatus
    exact_only: bool = False


@dataclass(frozen=True)
class Result:
    """What a check found, and the figures behind it."""

    verdicts: list[Verdict]
    now: Baseline
    notes: list[str]


def count(prepared: Bench, side: Side, show: ShowStatus, labels: Iterable[str] = ()) -> dict[str, Timing]:
    """The exact counts of every method, or of these."""
    found = {}
    for label in labels or prepared.workload.methods:
        show(f"counting {label}")
        counts: dict[str, Any] = side.counts(label)
        found[label] = Timing(settings=prepared.settings[label], images=prepared.identity.images, **counts)
    return found


def record(prepared: Bench, budget: Budget, show: ShowStatus) -> Baseline:
    """Counts and ratios of every method, as precise as the budget allows."""
    side = LocalSide(prepared.workload)
    timings = count(prepared, side, show)
    floor = _noise(side, prepared, show).reach
    pairs = _against_source(side, timings)
    _measure(pairs, prepared, lambda pair: pair.ratio.width < PRECISE, budget, show)
    return _baseline(prepared, floor, timings, pairs)


def check(then: Baseline, prepared: Bench, limits: Limits) -> Result:
    """Compare the methods with a baseline: the exact gate for all, the ratio gate for those that pass it."""
    refuse_other_workload(then.workload, prepared.identity)
    side = LocalSide(prepared.workload)
    now = count(prepared, side, limits.show)
    notes = _hardware(then, prepared)
    verdicts, same = _exact_verdicts(then.methods, now, "the baseline")
    if limits.exact_only:
        return _counts_only(verdicts, same, then.methods, prepared, now, notes)
    gate = RatioGate(limits.tolerance, _noise(side, prepared, limits.show))
    bases = {name: ratio for name in same if (ratio := then.methods[name].ratio) is not None}
    new = [name for name in same if name not in (*bases, REFERENCE)]
    verdicts += [Verdict(name, "new", "has no ratio in the baseline: record it again") for name in new]
    pairs = {name: pair for name, pair in _against_source(side, now).items() if name in bases}
    _measure(pairs, prepared, lambda pair: gate.decides(pair.ratio / bases[pair.name]), limits.budget, limits.show)
    verdicts += [
        gate.verdict(name, pair.ratio / bases[name], _times_source(pair.ratio, then.methods[name], now[name]))
        for name, pair in pairs.items()
    ]
    return Result(verdicts, _baseline(prepared, gate.noise.reach, now, pairs), notes + _noise_note(gate))


def compare_sides(old: Side, new: Side, prepared: Bench, limits: Limits) -> Result:
    """Compare two revisions side by side, each in its own process: needs no baseline and no ratio to Source.

    So Source, too, gets a verdict: what slows all methods down slows it down.
    """
    now = count(prepared, new, limits.show)
    then = {name: timing for name in now if (timing := _count_if_known(prepared, old, name, limits.show))}
    verdicts, same = _exact_verdicts(then, now, "the other revision")
    if limits.exact_only:
        return _counts_only(verdicts, same, then, prepared, now, [])
    gate = RatioGate(limits.tolerance, _noise(old, prepared, limits.show))
    pairs = {name: Pair(name, old.step(name), new.step(name)) for name in same}
    _measure(pairs, prepared, lambda pair: gate.decides(pair.ratio), limits.budget, limits.show)
    for name, pair in pairs.items():
        rounds = f"{len(pair.base_seconds)} passes over {len(pair.base_seconds[0])} batches"
        verdicts.append(gate.verdict(name, pair.ratio, f"both side by side, {rounds}"))
    return Result(verdicts, _baseline(prepared, gate.noise.reach, now, {}), _noise_note(gate))


def _count_if_known(prepared: Bench, side: Side, label: str, show: ShowStatus) -> Timing | None:
    """None if the side has no such method: a change may add one."""
    try:
        return count(prepared, side, show, (label,))[label]
    except SideFailed as error:
        if error.is_unknown:
            return None
        raise


def _exact_verdicts(
    then: Mapping[str, Timing], now: Mapping[str, Timing], other: str
) -> tuple[list[Verdict], list[str]]:
    """Verdicts on methods that do more work or are new, and the names of the others."""
    known = [name for name in now if name in then]
    failed = {name: verdict for name in known if (verdict := exact_gate(name, then[name], now[name]))}
    return [*failed.values(), *missing(then, now, other)], [name for name in known if name not in failed]


def _counts_only(
    verdicts: list[Verdict],
    same: list[str],
    then: Mapping[str, Timing],
    prepared: Bench,
    now: dict[str, Timing],
    notes: list[str],
) -> Result:
    passed = [_same_counts(name, then[name], now[name]) for name in same if name != REFERENCE]
    return Result(verdicts + passed, _baseline(prepared, None, now, {}), notes)


def _measure(
    pairs: dict[str, Pair], prepared: Bench, is_clear: Callable[[Pair], bool], budget: Budget, show: ShowStatus
) -> None:
    def on_pass(passes: int, unclear: int) -> None:
        show(f"pass {passes}: {len(pairs) - unclear} of {len(pairs)} methods are clear")

    measure(pairs.values(), prepared.identity.batches, is_clear, budget, on_pass)


def _noise(side: Side, prepared: Bench, show: ShowStatus) -> Ratio:
    show("measuring noise")
    return noise(side.step(REFERENCE), side.twin(REFERENCE), prepared.identity.batches)


def _noise_note(gate: RatioGate) -> list[str]:
    note = f"Noise floor: two identical runs may differ by {100 * gate.noise.reach:.1f} % here and now"
    if gate.noise.bias:
        return [f"{note}; they differ by at least {100 * gate.noise.bias:.1f} %, which is added to the tolerance."]
    return [f"{note}."]


def _against_source(side: LocalSide, timings: dict[str, Timing]) -> dict[str, Pair]:
    source = side.step(REFERENCE)
    return {name: Pair(name, source, side.step(name)) for name in timings if name != REFERENCE}


def _baseline(prepared: Bench, floor: float | None, timings: dict[str, Timing], pairs: dict[str, Pair]) -> Baseline:
    timed = {
        name: replace(timings[name], ratio=pair.ratio, passes=len(pair.base_seconds), seconds=pair.seconds)
        for name, pair in pairs.items()
    }
    machine = environment.describe(torch.device(prepared.workload.device))
    return Baseline(prepared.identity, machine, floor, timings | timed)


def _hardware(then: Baseline, prepared: Bench) -> list[str]:
    before, here = then.machine.get("device_name"), environment.device_name(torch.device(prepared.workload.device))
    if before == here:
        return []
    return [
        f"The baseline is from other hardware ({before}; here {here}): "
        f"ratios to Source are compared, absolute times are not."
    ]


def _times_source(ratio: Ratio, then: Timing, now: Timing) -> str:
    why = f"; {changed}" if (changed := changed_settings(then, now)) else ""
    assert then.ratio is not None
    return f"{ratio.value:.2f} times Source, {then.ratio.value:.2f} in the baseline{why}"


def _same_counts(name: str, then: Timing, now: Timing) -> Verdict:
    fewer = [what for what, total in now.counts.items() if total / now.images < then.counts[what] / then.images]
    summary = f"fewer {' and '.join(fewer)} than the baseline" if fewer else "the same counts as the baseline"
    per_image = f"{now.sample_forwards / now.images:.4g} forwards and {now.sample_backwards / now.images:.4g} backwards"
    return Verdict(name, "ok", f"{summary}: {per_image} per image, {now.optimizer_steps} optimiser steps")
