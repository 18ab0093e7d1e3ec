"""The seven scenarios that came before compositions: their orders and keys never change."""

from __future__ import annotations

import hashlib

import pytest

from tests.streams.test_scenarios import OF_TASKS, streams
from tta_bench.records.cell import Cell, Found
from tta_bench.runs.options import RunOptions
from tta_bench.runs.spec import specs
from tta_bench.streams.scenarios import SCENARIOS
from tta_bench.suites import suite as suites

NAMED = ("digits-c-5", "digit-pairs-c-5", "cifar10-c-5", "imagenet-c-5", "office-home")
# Recorded before there were compositions, from the digests of all streams of these suites with seeds 0, 1 and 7.
ORDERS = {
    "normal": "6c0fe666226f55c2",
    "single": "4650f33178507003",
    "label-shift": "a64df9cb62821801",
    "gradual": "5f4232778579ace1",
    "continual": "fb6a0d12a2ae0895",
    "mixed": "981667b110a8400f",
}
# Recorded from the keys of all cells of two methods on digits-c-5 that binding finds the same for.
KEYS = {
    "normal": "146f238e48cb71e1",
    "single": "4a96b41fe590ff6a",
    "label-shift": "9d227fac5f824f62",
    "gradual": "0ca355bfd7c15605",
    "continual": "56f553662b8a60aa",
    "mixed": "7577b35eb8fd9abe",
    "ccc": "0c3dc5df4996d580",
}
FOUND = Found({}, "m", "d", "s", "", "w", (0.5,), (0.5,), "cpu", "h", "i")


def digest(texts: list[str]) -> str:
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


@pytest.mark.parametrize("scenario", OF_TASKS)
def test_orders_stay_bit_for_bit(scenario: str) -> None:
    found = [s.digest for name in NAMED for seed in (0, 1, 7) for s in streams(suites.load(name), scenario, seed)]
    assert digest(found) == ORDERS[scenario]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_keys_stay_bit_for_bit(scenario: str) -> None:
    asked = specs(suites.load("digits-c-5"), RunOptions(methods=("source", "tent"), scenario=scenario))
    assert digest([Cell(spec, FOUND).key for spec in asked]) == KEYS[scenario]
