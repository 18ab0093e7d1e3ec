"""--scenario ccc: a pure function of tasks, seed and settings, near its target, made from clean images alone."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.support import trees
from tests.support.cli import Cli
from tta_bench.corruptions import CORRUPTIONS, HELD_OUT, corrupt_many
from tta_bench.corruptions.fractional import corrupt_between
from tta_bench.data.cache import CachedImages
from tta_bench.datasets import digits, open_dataset
from tta_bench.errors import UserError
from tta_bench.records.spec import CellSpec
from tta_bench.runs.bind import Binder
from tta_bench.runs.found import Request, stamps
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.spec import specs
from tta_bench.streams.ccc.images import ChangingImages, calibration, changing_parts
from tta_bench.streams.ccc.walk import SEVERITIES, Calibration, strong_enough, walk
from tta_bench.streams.scenarios import Ccc, scenario_of
from tta_bench.streams.stream import Stream, make_stream
from tta_bench.suites import suite as suites

DIGITS = {"kind": "digits-c", "severity": 5}
STRONG = ("impulse_noise", "snow", "fog", "contrast")
TABLE = Calibration("net", "abc", 10, 10, {name: [0.9 - 0.07 * i for i in range(11)] for name in CORRUPTIONS})


def stream(seed: int = 0, tasks: tuple[str, ...] = STRONG, **settings: object) -> Stream:
    scenario = Ccc(**{"length": 300, **settings})  # type: ignore[arg-type]
    data = open_dataset(DIGITS, tasks, None)
    return make_stream(scenario, "s", seed, changing_parts(scenario, data, DIGITS, "s", seed, tasks, None))


@pytest.mark.parametrize("name", [*CORRUPTIONS, *HELD_OUT])
def test_whole_severities_are_the_published_ones_and_others_lie_between(name: str) -> None:
    clean = digits.stream_images()
    pages, ids = clean.read(np.arange(6)).transpose(0, 2, 3, 1), clean.ids[:6]
    assert np.array_equal(corrupt_between(pages, name, 0, image_ids=ids), pages)
    assert np.array_equal(corrupt_between(pages, name, 3.0, image_ids=ids), corrupt_many(pages, name, 3, image_ids=ids))
    near, far = (np.abs(corrupt_between(pages, name, s, image_ids=ids) - pages.astype(float)).mean() for s in (0.25, 1))
    assert near < far or name == "saturate"  # grey digits have no colour


def test_noise_between_two_levels_is_as_strong_as_their_mean() -> None:
    """Two independent draws of noise would partly cancel each other."""
    grey = np.full((64, 32, 32, 3), 128, np.uint8)
    ids = [f"{i}" for i in range(64)]
    found = [corrupt_between(grey, "gaussian_noise", s, image_ids=ids).std() for s in (1, 1.5, 2)]
    assert found[1] == pytest.approx((found[0] + found[2]) / 2, rel=0.03)


@pytest.mark.parametrize("severity", [-0.1, 5.5, float("nan")])
def test_other_severities_are_refused(severity: float) -> None:
    with pytest.raises(UserError, match="severity of fog: expected a number from 0 to 5"):
        corrupt_between(np.zeros((1, 32, 32, 3), np.uint8), "fog", severity, image_ids=["a"])


def test_each_step_makes_one_corruption_weaker_or_the_other_stronger() -> None:
    points = walk(CORRUPTIONS, TABLE, 0.4, 2, ("seed",))
    for now, then in pairwise(points):
        if (now.first, now.second) == (then.first, then.second):
            moved = (now.first_severity - then.first_severity, then.second_severity - now.second_severity)
        else:  # the last step of a pair makes its first corruption vanish, or its second whole
            assert (then.first, then.second_severity) == (now.second, 0)
            moved = (now.first_severity, then.first_severity - now.second_severity)
        assert sorted(moved) == [0, SEVERITIES[1]]
    starts = [point.first for point in points if point.second_severity == 0 and point.first_severity]
    assert set(starts) == set(CORRUPTIONS)
    assert walk(CORRUPTIONS, TABLE, 0.4, 2, ("seed",)) == points != walk(CORRUPTIONS, TABLE, 0.4, 2, ("other",))


@pytest.mark.parametrize("target", [0.6, 0.4])
def test_the_expected_accuracy_stays_at_the_target(target: float) -> None:
    for point in walk(CORRUPTIONS, TABLE, target, 1, ("seed",)):
        first, second = (
            TABLE.kept(name)[SEVERITIES.index(severity)]
            for name, severity in ((point.first, point.first_severity), (point.second, point.second_severity))
        )
        assert 0.1 + 0.8 * first * second == pytest.approx(target, abs=0.08)


def test_mild_corruptions_are_left_out() -> None:
    mild = Calibration("net", "abc", 10, 10, {**TABLE.accuracy, "fog": [0.9] * 11})
    assert strong_enough(("fog", "snow", "frost"), mild, 0.4) == ["snow", "frost"]
    with pytest.raises(UserError, match="requires two tasks .* near 40 %, found 1 of 2"):
        strong_enough(("fog", "snow"), mild, 0.4)
    with pytest.raises(UserError, match="requires the corruptions of ImageNet-C, which 'flash' is not"):
        strong_enough(("flash",), mild, 0.4)


def test_a_stream_depends_on_seed_and_settings_alone() -> None:
    assert (
        stream().digest == stream().digest == "6f631896abaa0f58"
    )  # recorded: a change would make old records incomparable
    others = [stream(1), stream(difficulty="hard"), stream(length=301), stream(laps=2), stream(tasks=STRONG[::-1])]
    assert len({stream().digest, *(other.digest for other in others)}) == 6


def test_pixels_are_the_same_however_they_are_read() -> None:
    one, all_at_once = stream(), stream()
    batches = [one.images.read(batch) for batch in one.batches(7)]
    assert np.array_equal(np.concatenate(batches), all_at_once.images.read(all_at_once.order))
    assert len(one.order) == 300
    assert sorted(one.order) == list(range(300))


def test_no_clean_image_comes_again_before_all_others_came() -> None:
    found = stream(length=900)
    clean = [found.images.ids[i].rpartition(" ")[2].partition("/")[2] for i in found.order]
    assert len(set(clean[: digits.STREAM_IMAGES])) == digits.STREAM_IMAGES
    assert len(set(clean[digits.STREAM_IMAGES :])) == 900 - digits.STREAM_IMAGES


@pytest.mark.parametrize("name", suites.names())
def test_every_suite_makes_such_a_stream_or_says_why_not(name: str) -> None:
    suite = suites.load(name)
    if suite.data["kind"] in ("digits-c", "digit-pairs-c"):
        scenario, data = Ccc("easy", 2000), open_dataset(suite.data, suite.tasks, None)
        try:
            parts = changing_parts(scenario, data, suite.data, name, 0, suite.tasks, None)
        except UserError as error:
            assert "requires two tasks" in str(error)  # noqa: PT017  # suites of one or two mild tasks
            return
        assert sum(len(part.images.ids) for part in parts) == 2000
    else:
        with pytest.raises(UserError, match=f"requires a calibration .* --suite {name}`"):
            calibration(suite.data, open_dataset(suite.data, suite.tasks, None), name, None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"difficulty": "brutal"}, "difficulty: expected easy, medium, hard, got 'brutal'"),
        ({"length": 0}, "length: expected a whole number from 1"),
        ({"laps": 1.5}, "laps: expected a whole number from 1"),
        ({"imbalance": 2}, "scenario 'ccc' has no setting 'imbalance'"),
    ],
)
def test_wrong_settings_are_one_line(settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        scenario_of("ccc", settings)


def test_a_stream_shorter_than_its_walk_is_refused(cli: Cli, tmp_path: Path) -> None:
    words = ("run", "--suite", "digits-c-5", "--scenario", "ccc", "--length", 9, "--methods", "source")
    status, _, err = cli(*words, "--out", tmp_path / "run")
    assert (status, err.count("\n")) == (2, 1)
    assert "--length 9: this walk has" in err
    assert cli("run", "--laps", 2)[2] == "tta-bench: error: --laps requires --scenario ccc (got normal)\n"


def test_run_report_curve_and_verify(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ("--suite", "digits-c-5", "--scenario", "ccc", "--difficulty", "hard", "--length", 320, "--seeds", 0)
    assert cli("check", *words, "--methods", "source")[0] == 0
    status, out, err = cli("run", *words, "--methods", "source,tent", "--out", folder)
    assert status == 0, err
    assert "Scenario: ccc, difficulty hard, laps 1, length 320." in out
    records = [json.loads(file.read_text()) for file in (folder / "cells").glob("*.json")]
    assert len({record["cell"]["stream"] for record in records}) == 1
    assert {tuple(record["cell"]["tasks"]) for record in records} == {STRONG}
    assert "Reused 2 of 2 cells" in cli("run", *words, "--methods", "source,tent", "--out", folder)[1]
    assert cli("figure", folder, "curve", "--out", tmp_path)[0] == 0
    status, out, _ = cli("verify", folder)
    assert status == 0, out


def cifar(root: Path) -> CellSpec:
    """A request on a CIFAR-10 that has clean images and labels only."""
    home = trees.cifar_c(root, corruptions=(), block=40)
    np.save(home / "original.npy", np.random.default_rng(0).integers(0, 255, (40, 32, 32, 3)).astype(np.uint8))
    (root / "ccc").mkdir()
    (root / "ccc" / "cifar-c-10.json").write_text(json.dumps(vars(TABLE)))
    text = (
        "name: mine\nabout: x\ndata: {kind: cifar-c, classes: 10, severity: 5, allow_partial: true}\n"
        "tasks: [fog, snow]\nmodel: digits-vit\nbatch_size: 8\nmethods: {source: {}}\n"
    )
    (suite,) = suites.parse(text, "mine.yaml")
    return specs(suite, RunOptions(scenario=Ccc("medium", 100)))[0]


def test_clean_images_are_all_that_it_needs(tmp_path: Path) -> None:
    spec, cache = cifar(tmp_path), tmp_path / "cache"
    plain = Binder(Site(data_root=tmp_path, device="cpu")).bind(spec)
    cached = Binder(Site(data_root=tmp_path, cache=cache, device="cpu")).bind(spec)
    assert plain.cell.key == cached.cell.key
    assert {type(part) for part in cached.stream.images.sets} <= {ChangingImages, CachedImages}  # type: ignore[attr-defined]
    assert np.array_equal(plain.stream.images.read(plain.stream.order), cached.stream.images.read(cached.stream.order))
    known = stamps(Request(spec, Site(data_root=tmp_path), needs_source=False))
    assert known is not None
    for file in (tmp_path / "ccc" / "cifar-c-10.json", tmp_path / "CIFAR-10-C" / "original.npy"):
        assert f"{file} {file.stat().st_size}" in known["image_files"]


def test_a_bad_calibration_is_one_line(tmp_path: Path) -> None:
    spec = cifar(tmp_path)
    file = tmp_path / "ccc" / "cifar-c-10.json"
    for content, said in (
        ("{", "invalid JSON"),
        (json.dumps({**vars(TABLE), "accuracy": {"fog": [1.0]}}), "fog: expected 11 numbers from 0 to 1"),
        (json.dumps({"model": "x"}), "missing|required"),
    ):
        file.write_text(content)
        with pytest.raises(UserError, match=said):
            Binder(Site(data_root=tmp_path, device="cpu")).parts(spec)


def test_imagenet_needs_only_its_validation_images(tmp_path: Path) -> None:
    trees.clean_imagenet(tmp_path, classes=3, each=2)
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    clean = data.clean_images("fog")
    assert clean is not None
    assert len(clean.ids) == 6
    assert clean.read(np.arange(2)).shape == (2, 3, 224, 224)


@pytest.mark.slow
def test_calibrate_measures_what_is_committed(cli: Cli, tmp_path: Path) -> None:
    assert cli("calibrate", "--suite", "digits-c-5", "--out", tmp_path)[0] == 0
    again = cli("calibrate", "--suite", "digits-c-5", "--out", tmp_path)
    assert again[0] == 2
    assert "exists, and streams depend on it" in again[2]
    suite = suites.load("digits-c-5")
    data = open_dataset(suite.data, suite.tasks, None)
    made = json.loads((tmp_path / "digits-c-10.json").read_text())
    assert made == json.loads(json.dumps(vars(calibration(suite.data, data, "digits-c-5", None))))


@pytest.mark.slow
def test_tent_collapses_where_source_and_rdumb_do_not(cli: Cli, tmp_path: Path) -> None:
    words = (
        "--suite",
        "digit-pairs-c-5",
        "--scenario",
        "ccc",
        "--difficulty",
        "hard",
        "--length",
        12_000,
        "--seeds",
        0,
    )
    methods = ("--methods", "source,tent,rdumb", "--set", "rdumb.reset_interval=40")
    assert cli("run", *words, *methods, "--out", tmp_path / "run")[0] == 0
    records = [json.loads(file.read_text()) for file in (tmp_path / "run" / "cells").glob("*.json")]
    top1 = {record["cell"]["method"]: record["top1"] for record in records}
    assert 0.15 < top1["source"] < 0.3
    assert top1["tent"] < top1["source"] - 0.05
    assert top1["rdumb"] > top1["source"] - 0.02
