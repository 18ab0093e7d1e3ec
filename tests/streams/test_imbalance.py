"""--imbalance: part of a stream's name and of its cell, so that tables never mix two ratios."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.cli import Cli
from tta_bench.data.images import ArrayImages
from tta_bench.errors import UserError
from tta_bench.streams.orders import DRAWS_PER_CLASS
from tta_bench.streams.scenarios import LabelShift, scenario_of
from tta_bench.streams.stream import Part, make_stream

CLASSES = 20
LABELS = np.arange(40 * CLASSES) % CLASSES
IMAGES = ArrayImages(np.zeros((len(LABELS), 3, 1, 1), np.uint8), LABELS, [f"{i}" for i in range(len(LABELS))])


def steps(ratio: float, seed: int = 0) -> np.ndarray:  # type: ignore[type-arg]
    """How often each class appears in each step, the most frequent first."""
    stream = make_stream(LabelShift(ratio), "s", seed, [Part("fog", IMAGES)])
    drawn = LABELS[stream.order].reshape(CLASSES, DRAWS_PER_CLASS)
    return np.array([np.sort(np.bincount(step, minlength=CLASSES))[::-1] for step in drawn])


@pytest.mark.parametrize("ratio", [1, 10, 100, 1000, LabelShift().imbalance])
def test_a_steps_class_has_the_share_that_the_ratio_says(ratio: float) -> None:
    share = ratio / (ratio + CLASSES - 1)
    stream = make_stream(LabelShift(ratio), "s", 0, [Part("fog", IMAGES)])
    drawn = LABELS[stream.order].reshape(CLASSES, -1)
    if ratio == 1:  # no class stands out: all are about as frequent in every step
        assert steps(1)[:, 0].mean() < 3 * DRAWS_PER_CLASS / CLASSES
        assert (np.bincount(LABELS[stream.order]) > 60).all()
        return
    main = [int(np.bincount(step).argmax()) for step in drawn]
    assert sorted(main) == list(range(CLASSES)), "each class has one step"
    found = float(np.mean([np.mean(step == c) for step, c in zip(drawn, main, strict=True)]))
    assert abs(found - share) < 4 * np.sqrt(share * (1 - share) / drawn.size) + 1e-9


def test_the_default_ratio_keeps_its_old_name_and_order() -> None:
    usual = make_stream(LabelShift(), "s", 0, [Part("fog", IMAGES)])
    assert usual.digest == "005ce1fcfd203bcf"  # recorded before --imbalance existed
    assert make_stream(LabelShift(500_000.0), "s", 0, [Part("fog", IMAGES)]).digest == usual.digest
    assert LabelShift().label == LabelShift(500_000).label == "label-shift"
    assert make_stream(LabelShift(1000), "s", 0, [Part("fog", IMAGES)]).digest != usual.digest


def test_a_ratio_has_one_name() -> None:
    assert LabelShift(1000) == LabelShift(1000.0)
    assert LabelShift(1000).label == "label-shift, imbalance 1000"
    assert LabelShift(1.5).label == "label-shift, imbalance 1.5"
    assert LabelShift(1234567).stream_name != LabelShift(1234568).stream_name


def test_two_ratios_are_different_cells(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    run = ("run", "--suite", small_suite, "--methods", "source", "--limit", 32, "--scenario", "label-shift")
    for more in ([], ["--imbalance", "500000"], ["--imbalance", "1000"], ["--imbalance", "1000.0"]):
        status, shown, _ = cli(*run, *more, "--out", tmp_path / "run")
        assert status == 0, shown
        ratio = more and more[1].startswith("1000")
        assert f"Scenario: label-shift, imbalance {1000 if ratio else 500000}." in shown
    records = [json.loads(file.read_text())["cell"] for file in (tmp_path / "run" / "cells").glob("*.json")]
    assert {cell["scenario"] for cell in records} == {"label-shift"}
    assert sorted((cell["tasks"][0], cell["scenario_settings"]["imbalance"]) for cell in records) == [
        (task, imbalance) for task in ("brightness", "contrast") for imbalance in (1000.0, 500_000.0)
    ]
    _, shown, _ = cli("report", tmp_path / "run")
    assert shown.count("Scenario: label-shift") == 1, "the two ratios are never averaged into one row"


@pytest.mark.parametrize("verb", ["run", "check"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--imbalance", "1000"], "--imbalance requires --scenario label-shift (got normal)"),
        (["--scenario", "mixed", "--imbalance", "500000"], "--imbalance requires --scenario label-shift (got mixed)"),
        *(
            (["--scenario", "label-shift", "--imbalance", wrong], f"expected a number above 0, got '{wrong}'")
            for wrong in ("0", "-3", "many", "inf", "nan")
        ),
    ],
)
def test_a_mistake_is_one_line(cli: Cli, verb: str, words: list[str], said: str, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "run"] if verb == "run" else []
    status, shown, err = cli(verb, *words, *out)
    assert (status, said in err, err.count("\n"), shown) == (2, True, 1, ""), err
    assert list(tmp_path.iterdir()) == []


def test_scenarios_refuse_it_too() -> None:
    with pytest.raises(UserError, match="scenario 'gradual' has no setting 'imbalance'"):
        scenario_of("gradual", {"imbalance": 10})
    with pytest.raises(UserError, match="imbalance: expected a number above 0, got -1"):
        scenario_of("label-shift", {"imbalance": -1})
