"""What cells will cost: measured in earlier records, else declared by methods."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.engines import make_entry, make_spec
from tests.support.records import changed, make_record
from tta_bench.engines.costs import ordered, passes, seconds
from tta_bench.registry import installed

HOME = Path(__file__).parents[2]
FACTOR = 1.5  # between what a method declares and what is counted
COUNTED = {
    name: found
    for file in ("timing.json", "timing_others.json")
    for name, found in json.loads((HOME / "benchmarks" / file).read_text())["methods"].items()
}


def declared(name: str) -> float:
    return passes(*installed().load(name).passes_per_image)


def test_source_comes_first_and_expensive_cells_next() -> None:
    entries = [make_entry(make_spec(name)) for name in ("tent", "sar", "memo", "source")]
    made, in_seconds = ordered(entries, [])
    assert [entry.spec.method for entry in made] == ["source", "memo", "sar", "tent"]
    assert not in_seconds


def test_times_and_counts_of_earlier_records_are_used_first() -> None:
    entries = [make_entry(make_spec(name)) for name in ("tent", "memo", "sar")]
    tent = make_record("tent", ms=10)
    memo = changed(make_record("memo", scenario="gradual"), samples=100, sample_forwards=900, sample_backwards=800)
    made, in_seconds = ordered(entries, [tent, memo])
    costs = {entry.spec.method: entry.cost for entry in made}
    assert in_seconds
    assert costs["tent"] == pytest.approx(seconds(tent), rel=1e-3)
    scale = seconds(tent) / passes(1, 0.5)  # as this record counts them
    assert costs["memo"] == pytest.approx(scale * passes(9, 8), rel=1e-3), "of another scenario, passes still count"
    assert costs["sar"] == pytest.approx(scale * declared("sar"), rel=1e-3)


def test_dear_methods_declare_more_than_cheap_ones() -> None:
    costs = [declared(name) for name in ("dda", "memo", "foa", "sar", "tent", "source")]
    assert all(dear > cheap for dear, cheap in pairwise(costs))


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_methods_declare_about_what_is_counted(name: str) -> None:
    found = COUNTED[name]
    counted = passes(found["sample_forwards"], found["sample_backwards"]) / found["images"]
    views = found["settings"].get("augmentations", 64) / 64 if name == "memo" else 1.0  # its cost is that of its views
    assert 1 / FACTOR < views * declared(name) / counted < FACTOR


@pytest.mark.parametrize("name", installed().names())
def test_every_method_declares_its_passes(name: str) -> None:
    forwards, backwards = installed().load(name).passes_per_image
    assert forwards >= 1
    assert backwards >= 0
    assert "passes_per_image" in {key for cls in installed().load(name).__mro__[:-3] for key in vars(cls)}
