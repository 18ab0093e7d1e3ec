"""Records and checks timings: builds pairs, measures them, and applies the gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from tta_bench.measure import environment
from tta_bench.measure.baseline import Baseline, Timing
from tta_bench.measure.ratio import Ratio
from tta_bench.timing.measure import Budget, Pair, measure, noise
from tta_bench.timing.sides import LocalSide, Side, SideFailed
from tta_bench.timing.verdict import RatioGate, Verdict, changed_settings, exact_gate, missing
from tta_bench.timing.workload import REFERENCE, Prepared, refuse_other_workload

PRECISE = 0.01  # half an interval's width at which a recording is good enough
ShowStatus = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What a check found, and the figures behind it."""

    verdicts: list[Verdict]
    now: Baseline
    notes: list[str]


def machine(device: str) -> dict[str, Any]:
    """The environment of the figures."""
    return environment.describe(torch.device(device))


def count(prepared: Prepared, side: Side, show: ShowStatus, labels: Iterable[str] = ()) -> dict[str, Timing]:
    """The exact counts of every method, or of these."""
    found = {}
    for label in labels or prepared.workload.methods:
        show(f"counting {label}")
        counts = side.counts(label)
        found[label] = Timing(
            settings=prepared.settings[label],
            images=prepared.identity.images,
            sample_forwards=counts["sample_forwards"],
            sample_backwards=counts["sample_backwards"],
            optimizer_steps=counts["optimizer_steps"],
            uncounted_forwards=counts.get("uncounted_forwards", 0),  # an older revision does not count them
        )
    return found


def record(prepared: Prepared, budget: Budget, show: ShowStatus) -> Baseline:
    """Counts and ratios of every method, as precise as the budget allows."""
    side = LocalSide(prepared.workload)
    timings = count(prepared, side, show)
    floor = _noise(side, prepared, show).reach
    pairs = _against_source(side, timings)
    measure(
        pairs.values(),
        prepared.identity.batches,
        lambda pair: pair.ratio.width < PRECISE,
        budget,
        _on_pass(show, len(pairs)),
    )
    return _baseline(prepared, floor, timings, pairs)


def check(
    then: Baseline, prepared: Prepared, tolerance: float, budget: Budget, show: ShowStatus, *, exact_only: bool = False
) -> Result:
    """Compare the methods with a baseline: the exact gate for all, the ratio gate for those that pass it."""
    refuse_other_workload(then.workload, prepared.identity)
    side = LocalSide(prepared.workload)
    now = count(prepared, side, show)
    known = {name: timing for name, timing in now.items() if name in then.methods}
    exact = {name: verdict for name, t in known.items() if (verdict := exact_gate(name, then.methods[name], t))}
    notes = _hardware(then, prepared)
    verdicts = [*exact.values(), *missing(then.methods, now, "the baseline")]
    same = [name for name in known if name not in exact and name != REFERENCE]
    if exact_only:
        verdicts += [_same_counts(name, then.methods[name], now[name]) for name in same]
        return Result(verdicts, _baseline(prepared, None, now, {}), notes)

    gate = RatioGate(tolerance, _noise(side, prepared, show))
    notes += _noise_note(gate)
    bases = {name: ratio for name in same if (ratio := then.methods[name].ratio) is not None}
    verdicts += [
        Verdict(name, "new", "has no ratio in the baseline: record it again") for name in same if name not in bases
    ]
    pairs = {name: pair for name, pair in _against_source(side, now).items() if name in bases}
    measure(
        pairs.values(),
        prepared.identity.batches,
        lambda pair: gate.outcome(pair.ratio / bases[pair.name]) != "cannot tell",
        budget,
        _on_pass(show, len(pairs)),
    )
    verdicts += [
        gate.verdict(name, pair.ratio / bases[name], _times_source(pair.ratio, then.methods[name], now[name]))
        for name, pair in pairs.items()
    ]
    return Result(verdicts, _baseline(prepared, gate.noise.reach, now, pairs), notes)


def compare_sides(
    old: Side,
    new: Side,
    prepared: Prepared,
    tolerance: float,
    budget: Budget,
    show: ShowStatus,
    *,
    exact_only: bool = False,
) -> Result:
    """Compare two revisions side by side, each in its own process: needs no baseline and no ratio to Source.

    So Source, too, gets a verdict: what slows all methods down slows it down.
    """
    now = count(prepared, new, show)
    then = {name: timing for name in now if (timing := _count_if_known(prepared, old, name, show))}
    known = {name: timing for name, timing in now.items() if name in then}
    exact = {name: verdict for name, t in known.items() if (verdict := exact_gate(name, then[name], t))}
    only_new = missing(then, now, "the other revision")
    if exact_only:
        same = [_same_counts(name, then[name], t) for name, t in known.items() if name not in (*exact, REFERENCE)]
        return Result([*exact.values(), *only_new, *same], _baseline(prepared, None, now, {}), [])
    gate = RatioGate(tolerance, _noise(old, prepared, show))
    pairs = {name: Pair(name, old.step(name), new.step(name)) for name in known if name not in exact}
    measure(
        pairs.values(),
        prepared.identity.batches,
        lambda pair: gate.outcome(pair.ratio) != "cannot tell",
        budget,
        _on_pass(show, len(pairs)),
    )
    verdicts = [gate.verdict(name, pair.ratio, f"both side by side, {_rounds(pair)}") for name, pair in pairs.items()]
    found = _baseline(prepared, gate.noise.reach, now, {})
    return Result([*exact.values(), *only_new, *verdicts], found, _noise_note(gate))


def _count_if_known(prepared: Prepared, side: Side, label: str, show: ShowStatus) -> Timing | None:
    """None if the side has no such method: a change may add one."""
    try:
        return count(prepared, side, show, (label,))[label]
    except SideFailed as error:
        if error.is_unknown:
            return None
        raise


def _noise(side: Side, prepared: Prepared, show: ShowStatus) -> Ratio:
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


def _baseline(prepared: Prepared, floor: float | None, timings: dict[str, Timing], pairs: dict[str, Pair]) -> Baseline:
    timed = {
        name: replace(t, ratio=pairs[name].ratio, passes=len(pairs[name].base_seconds), seconds=pairs[name].seconds)
        if name in pairs
        else t
        for name, t in timings.items()
    }
    return Baseline(prepared.identity, machine(prepared.workload.device), floor, timed)


def _hardware(then: Baseline, prepared: Prepared) -> list[str]:
    here = machine(prepared.workload.device)
    if then.machine.get("device_name") == here["device_name"]:
        return []
    return [
        f"The baseline is from other hardware ({then.machine.get('device_name')}; here {here['device_name']}): "
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


def _rounds(pair: Pair) -> str:
    return f"{len(pair.base_seconds)} passes over {len(pair.base_seconds[0])} batches"


def _on_pass(show: ShowStatus, pairs: int) -> Callable[[int, int], None]:
    return lambda passes, open_: show(f"pass {passes}: {pairs - open_} of {pairs} methods are clear")
