"""The docs describe what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tta_bench
from tests.folders import save
from tests.records import make_record
from tta_bench.datasets import open_dataset
from tta_bench.datasets.imagenet import CLEAN_FOLDERS
from tta_bench.errors import UserError
from tta_bench.records.store import Store
from tta_bench.suites import suite

ROOT = Path(__file__).parent.parent
DATASETS = ROOT / "docs" / "datasets.md"
README = (ROOT / "README.md").read_text()


def test_errors_and_docs_name_the_same_imagenet_folder(tmp_path: Path) -> None:
    found = suite.load("imagenet-c-5")
    wanted = f"{CLEAN_FOLDERS[0]}/<wnid>/*.JPEG"
    with pytest.raises(UserError) as caught:
        open_dataset(found.data, found.tasks, tmp_path).source_images()
    assert str(tmp_path / wanted) in str(caught.value)
    text = DATASETS.read_text()
    assert f"`{wanted}`" in text
    assert f"make-corrupted --from {CLEAN_FOLDERS[0]} " in text


def notebook() -> tuple[str, str]:
    """README's example of frames, and the output it shows."""
    section = README[README.index("## In a notebook") :]
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", section, re.DOTALL)[:2]
    return code, shown


def test_the_example_of_frames_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = notebook()
    store = Store.create(tmp_path / "results" / "runs" / "digits-c-5", "digits-c-5")
    for method in ("source", "eata"):
        save(store, make_record(method, suite="digits-c-5", task="contrast"))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    words = capsys.readouterr().out.split()
    assert words[:4] == shown.split()[:4]
    assert words[-9:] == ["False", "True", "source", "False", "50", "0", "True", "0", "50"]


def test_the_example_of_frames_shows_the_numbers_of_the_tables() -> None:
    lines = [line.split() for line in notebook()[1].splitlines()]
    tables = [[word.strip(" *") for word in line.split("|")[1:-1]] for line in README.splitlines() if "|" in line]
    accuracy = next(i for i, row in enumerate(tables) if "Avg." in row)
    time = next(i for i, row in enumerate(tables) if "ms/image" in row)
    shown = {line[0]: line[1:] for line in lines[2:8]}
    assert len(shown) == 6
    for row in tables[accuracy + 2 : accuracy + 8]:
        assert float(shown[row[0]][0]) == pytest.approx(float(row[tables[accuracy].index("Avg.")]), abs=0.0501)
    for row in tables[time + 2 : time + 8]:
        assert shown[row[0]][2] == row[tables[time].index("ms/image")]
    wrong, right = ([int(word) for word in line[1:]] for line in lines[-2:])
    images = sum(wrong) + sum(right)
    contrast = tables[accuracy].index("cnt")
    scores = {row[0]: float(row[contrast]) for row in tables[accuracy + 2 : accuracy + 8]}
    assert 100 * sum(right) / images == pytest.approx(scores["source"], abs=0.0501)
    assert 100 * (wrong[1] + right[1]) / images == pytest.approx(scores["eata"], abs=0.0501)


def test_the_columns_of_frames_are_documented(run: Path) -> None:
    text = (ROOT / "docs" / "report.md").read_text()
    section = text[text.index("## As a pandas frame") :]
    documented = re.findall(r"^\| ([a-z0-9_, ]+) \|", section, re.MULTILINE)[1:]
    assert set(", ".join(documented).split(", ")) == set(tta_bench.frame(run).columns)
    assert ", ".join(tta_bench.predictions(run).columns) in " ".join(section.split())
