"""A request is plain data: it needs no torch, survives JSON, and identifies what is requested."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.works import read_spec, requests
from tta_bench.errors import UserError
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site
from tta_bench.runs.spec import specs
from tta_bench.streams.scenarios import SCENARIOS, LabelShift, scenario_of
from tta_bench.suites import suite


@pytest.mark.parametrize("name", suite.names())
def test_every_suite_survives_json(name: str) -> None:
    for scenario in SCENARIOS:
        found = specs(suite.load(name), RunOptions(scenario=scenario_of(scenario), model="digits-vit"))
        again = [read_spec(json.loads(json.dumps(spec.to_json()))) for spec in found]
        assert again == found
        assert [spec.digest for spec in again] == [spec.digest for spec in found]
        assert len({spec.digest for spec in found}) == len(found)


def test_a_site_survives_json(tmp_path: Path) -> None:
    for site in (Site(), Site(data_root=tmp_path, cache=tmp_path / "cache", readers=3, device="cuda:1")):
        assert Site(**json.loads(json.dumps(asdict(site), default=str))) == site


def test_it_is_frozen(small_suite: Path) -> None:
    spec = requests(small_suite)[0]
    with pytest.raises(FrozenInstanceError):
        spec.seed = 3  # type: ignore[misc]


def test_the_label_is_not_part_of_the_request(small_suite: Path) -> None:
    spec = requests(small_suite)[0]
    assert replace(spec, label="other").digest == spec.digest
    assert replace(spec, seed=9).digest != spec.digest
    shifts = [requests(small_suite, scenario=LabelShift(ratio))[0].digest for ratio in (10, 500_000)]
    assert len({spec.digest, *shifts}) == 3


def test_remember_adds_its_word_to_the_scenario(small_suite: Path) -> None:
    def named(suite_scenario: str | None = None, **given: Any) -> str:
        found = suite.load(str(small_suite))
        return specs(replace(found, scenario=suite_scenario), RunOptions(methods="source", **given))[0].scenario

    assert named(scenario="continual", remember=16) == named(scenario="continual+remember:16")
    assert named(scenario="rotta", remember="16,every=64") == named(scenario="rotta+remember:16,every=64")
    assert named("continual+reset:task", remember=16) == "continual+remember:16+reset:task"
    for scenario in ("forgetting", "continual+remember:8"):
        with pytest.raises(UserError, match=r"^--remember: .*remember:16 are two choices of one axis .*: keep one$"):
            named(scenario=scenario, remember=16)
    with pytest.raises(UserError, match="^--remember: remember:16 requires one stream over all tasks, as continual"):
        named(remember=16)
    for wrong in ("0", "x", "16,often=2", 1.5):
        with pytest.raises(UserError, match="remember: "):
            RunOptions(remember=wrong)  # type: ignore[arg-type]


def test_a_label_names_a_file_without_its_folder(small_suite: Path) -> None:
    given = {"dept-g": {"prompts": "/data/me/prompts.safetensors", "lr": 0.1}}
    spec = requests(small_suite, methods=("dept-g",), set=given)[0]
    assert spec.label == "dept-g (prompts=prompts.safetensors, lr=0.1)"
    assert spec.settings["prompts"] == "/data/me/prompts.safetensors"


def test_methods_follow_each_other_on_a_stream(small_suite: Path) -> None:
    found = requests(small_suite, seeds=(0, 1))
    assert [(spec.name, spec.seed, spec.label) for spec in found[:4]] == [
        ("contrast", 0, "source"), ("contrast", 0, "tent"), ("contrast", 1, "source"), ("contrast", 1, "tent"),
    ]  # fmt: skip
    assert [spec.tasks for spec in requests(small_suite, scenario=scenario_of("continual"))] == [
        ("contrast", "brightness")
    ] * 2


def test_a_models_file_has_its_absolute_path(small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small_suite.parent)
    found = requests(small_suite, model="vit_tiny=here/w.npz")
    assert {spec.model for spec in found} == {f"vit_tiny={small_suite.parent}/here/w.npz"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"methods": ("tnt",)}, "unknown method 'tnt'; did you mean 'tent'"),
        ({"tasks": ("fgo",)}, "suite 'small' has no task 'fgo'"),
        ({"set": {"sar": {"lr": 1}}}, "method 'sar' is not in this run"),
    ],
)
def test_a_typo_is_one_line(small_suite: Path, given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        requests(small_suite, **given)


@pytest.mark.parametrize(
    ("key", "wrong", "said"),
    [
        ("scenario", "nomral", "unknown scenario 'nomral'; did you mean 'normal'"),
        ("scenario_settings", {"imbalance": 3}, "scenario 'normal' has no setting 'imbalance'"),
        ("seed", "0", "job 3: seed: expected a whole number from 0 to .*, got '0'"),
        ("tasks", "fog", "job 3: tasks: expected a list"),
        ("sede", 0, "job 3: unknown key 'sede'; did you mean 'seed'"),
    ],
)
def test_a_wrong_request_is_one_line(small_suite: Path, key: str, wrong: object, said: str) -> None:
    content = {**requests(small_suite)[0].to_json(), key: wrong}
    with pytest.raises(UserError, match=said):
        read_spec(content, "job 3")


def test_listing_requests_imports_no_torch() -> None:
    code = (
        "import sys\n"
        "from tta_bench.runs import key_cache, resume, spec\n"
        "from tta_bench.suites import suite\n"
        "from tta_bench.runs.options import RunOptions\n"
        "found = spec.specs(suite.load('digits-c-5'), RunOptions())\n"
        "print(len(found), 'torch' in sys.modules, 'sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1:] == ["False", "False"]
