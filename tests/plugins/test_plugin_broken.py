"""A package with a broken dataset, model or suite does not affect others, and is named in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import SMALL
from tests.support.plugins import install, tta_bench


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


def listed(site: Path, what: str) -> str:
    done = tta_bench(site, "list", what)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def bring_suites(site: Path, package: str, **files: str) -> None:
    install(site, f"{package}_code", f"{package} = {package}", "", "suites")
    (site / package).mkdir()
    for name, text in files.items():
        (site / package / f"{name}.yaml").write_text(text)


def test_a_dataset_that_cannot_be_imported(site: Path, tmp_path: Path) -> None:
    install(site, "broken", "mine = broken:Mine", "raise RuntimeError('no licence')", "datasets")
    bring_suites(site, "theirs", small=SMALL.replace("digits-c, severity: 5", "mine"))
    said = "dataset 'mine' of broken cannot be imported (broken:Mine): RuntimeError: no licence"
    for what, also in (("datasets", "imagenet-c"), ("suites", "digits-c-5")):
        assert said in listed(site, what)
        assert also in listed(site, what)
    ran = tta_bench(site, "run", "--suite", "small", "--out", tmp_path / "run")
    assert (ran.returncode, said in ran.stderr, ran.stderr.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "class Mine: pass",
            "dataset 'mine' of theirs: theirs:Mine is not a subclass of tta_bench.datasets.base.Dataset",
        ),
        (
            "from tta_bench.datasets import Dataset\n"
            "class Mine(Dataset):\n"
            "    num_classes = 10\n"
            "    def __init__(self, root): raise KeyError('fog')\n"
            "    open = inspect = source_images = tasks = None\n",
            "data: kind 'mine' cannot be opened: KeyError: 'fog'",
        ),
    ],
)
def test_a_dataset_of_the_wrong_class(code: str, said: str, site: Path, tmp_path: Path) -> None:
    install(site, "theirs", "mine = theirs:Mine", code, "datasets")
    (tmp_path / "small.yaml").write_text(SMALL.replace("digits-c, severity: 5", "mine"))
    ran = tta_bench(site, "run", "--suite", tmp_path / "small.yaml", "--out", tmp_path / "run")
    assert (ran.returncode, said in ran.stderr, ran.stderr.count("\n")) == (2, True, 1), ran.stderr


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('no licence')", "cannot be imported (theirs:mine): RuntimeError: no licence"),
        ("def mine(): raise OSError('no file')", "cannot be described: OSError: no file"),
        ("def mine(): return 3", "model 'mine' of theirs: expected a PackagedModel, got int"),
    ],
)
def test_a_model_that_cannot_be_described(code: str, said: str, site: Path) -> None:
    install(site, "theirs", "mine = theirs:mine", code, "models")
    shown = listed(site, "models")
    assert said in shown
    assert "digits-vit" in shown


PACKAGED = (
    "from tta_bench.models.packaged import PackagedModel\n"
    "def build():\n"
    "    import torch\n"
    "    {}\n"
    "def mine():\n"
    "    return PackagedModel(build=build, mean=(0.5,) * 3, std=(0.5,) * 3)\n"
)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise RuntimeError('no weights')", "model 'mine' of theirs cannot be built: RuntimeError: no weights"),
        ("return 3", "model 'mine' of theirs: build() returned int, expected an nn.Module"),
        ("return torch.nn.Linear(2, 2)", "model 'mine' of theirs: its network has no num_classes: state it"),
    ],
)
def test_a_model_that_cannot_be_built(line: str, said: str, site: Path, tmp_path: Path) -> None:
    install(site, "theirs", "mine = theirs:mine", PACKAGED.format(line), "models")
    shown = listed(site, "models")
    assert "mine – – – – – theirs" in shown, "listing builds no model"
    ran = tta_bench(site, "run", "--model", "mine", "--methods", "source", "--out", tmp_path / "run")
    assert (ran.returncode, said in ran.stderr, ran.stderr.count("\n")) == (2, True, 1), ran.stderr


def test_suites_with_mistakes(site: Path) -> None:
    bring_suites(site, "theirs", bad=SMALL.replace("tasks", "task"), good=SMALL)
    bring_suites(site, "empty")
    bring_suites(site, "thief", mine=SMALL.replace("name: small", "name: digits-c-5"))
    install(site, "gone_code", "gone = gone.suites", "", "suites")
    shown = listed(site, "suites")
    assert "suites of theirs_code: bad.yaml: unknown key 'task'; did you mean 'tasks'?" in shown
    assert "suites of empty_code: package 'empty' has no *.yaml files" in shown
    assert "suites of gone_code: package 'gone.suites' is not installed" in shown
    assert "suite 'digits-c-5' is claimed by " in shown
    assert " small 2 digits-vit " in shown
    assert "theirs_code" in shown
    unknown = tta_bench(site, "run", "--suite", "smal")
    assert "unknown suite 'smal'; did you mean 'small'?" in unknown.stderr
    assert "not read: " in unknown.stderr


def test_suites_are_listed_without_importing_their_package(site: Path) -> None:
    bring_suites(site, "theirs", small=SMALL)
    (site / "theirs" / "__init__.py").write_text("raise RuntimeError('imported')")
    assert " small 2 digits-vit " in listed(site, "suites")
