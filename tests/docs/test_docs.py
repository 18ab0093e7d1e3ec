"""What the documents say is what the code does."""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from statistics import mean

import pytest
import torch
import yaml

import tta_bench
from tests.support.checkout import ROOT
from tests.support.folders import save
from tests.support.records import make_record
from tta_bench import registry
from tta_bench.datasets import open_dataset
from tta_bench.datasets.imagenet import CLEAN_FOLDERS
from tta_bench.errors import UserError
from tta_bench.export import exporters
from tta_bench.export.content import collect
from tta_bench.papers import paper
from tta_bench.records.store import Store
from tta_bench.report.runs import Runs
from tta_bench.suites import suite
from tta_bench.testing.small import PIXELS, tiny_vit

README = (ROOT / "README.md").read_text()
EMBEDDED = (ROOT / "docs" / "embedded.md").read_text()
DATASETS, EXPORT, METHODS, NOTEBOOK, REPORT = (
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("datasets", "export", "methods", "notebook", "report")
)


@pytest.fixture(autouse=True)
def _no_classes_left() -> Iterator[None]:
    registry.installed().given.clear()
    yield
    registry.installed().given.clear()


def blocks(text: str, language: str = "python") -> list[str]:
    """The code blocks of a document, without the indentation of a list that they are in."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(code) for _, code in found]


def section(text: str, title: str) -> str:
    start = text.index(f"## {title}")
    return text[start : text.find("\n## ", start) % len(text)]


def run_blocks(*code: str) -> dict[str, object]:
    scope: dict[str, object] = {"__name__": "a notebook"}
    for block in code:
        exec(block, scope)
    return scope


def test_errors_and_docs_name_the_same_imagenet_folder(tmp_path: Path) -> None:
    found = suite.load("imagenet-c-5")
    wanted = f"{CLEAN_FOLDERS[0]}/<wnid>/*.JPEG"
    with pytest.raises(UserError) as caught:
        open_dataset(found.data, found.tasks, tmp_path).source_images()
    assert str(tmp_path / wanted) in str(caught.value)
    assert f"`{wanted}`" in DATASETS
    assert f"make-corrupted --from {CLEAN_FOLDERS[0]} " in DATASETS


def test_the_method_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    _, written, tried = blocks(README)
    assert re.search(r"tta_bench\.run\(methods={.*}, suite=", tried)
    results = run_blocks(written, tried)["results"]
    assert isinstance(results, tta_bench.Results)
    assert [(record.label, record.status) for record in results.records] == [("source", "done"), ("median", "done")]
    shown = capsys.readouterr().out
    assert "demo: accuracy (%)" in shown
    assert re.search(r"(between median and source|[Mm]edian) .*95 % interval", " ".join(shown.split()))


def test_the_script_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    script, *_ = blocks(README)
    images, labels = torch.rand(8, 3, PIXELS, PIXELS), torch.arange(8) % 10
    exec(script, {"model": tiny_vit(num_classes=10), "loader": [(images[:4], labels[:4]), (images[4:], labels[4:])]})
    shown = capsys.readouterr().out
    assert "8 images in batches of 4" in shown
    assert "Interval(points=" in shown


def test_the_readme_is_one_screen_and_doors() -> None:
    assert len(README.splitlines()) <= 170


def test_the_method_of_the_guide_keeps_its_promises() -> None:
    run_blocks(*blocks(METHODS))


def test_the_guide_lists_every_built_in_method() -> None:
    table = section(METHODS, "Built-in")
    listed = {row[0]: row[1:] for row in re.findall(r"^\| `(.*)` \| (.*) \| (.*) \| (.*) \|$", table, re.MULTILINE)}
    rows = registry.describe(registry.installed().names())
    found = {row["name"]: (row["paper"], row["kind"], row["needs"] or "–") for row in rows}
    assert {name: listed.get(name) for name in found} == found
    recorded = [file.stem for file in (ROOT / "tests" / "golden").glob("*.npz")]
    without = {name for name in found if not any(case == name or case.startswith(f"{name}-") for case in recorded)}
    assert without <= set(re.findall(r"`([\w-]+)`", table.partition("Without a recording:")[2]))


def test_the_calls_of_the_notebook_run(capsys: pytest.CaptureFixture[str]) -> None:
    _, called, defined, *_ = blocks(NOTEBOOK)
    frame = run_blocks(called, defined)["frame"]
    assert len(frame) == 12  # type: ignore[arg-type]
    shown = capsys.readouterr().out
    assert "mine-strong" in shown
    assert "NOT REPORTABLE" in shown


def test_the_call_in_a_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(section(NOTEBOOK, "In your script"))
    exec(code, {})
    shown = capsys.readouterr().out
    assert "96 images in batches of 32" in shown
    assert "Interval(points=" in shown


def test_the_example_of_published_results_runs(capsys: pytest.CaptureFixture[str]) -> None:
    part = section(NOTEBOOK, "Published results")
    (code,), (shown,) = blocks(part), blocks(part, "text")
    exec(code, {})
    assert shown.strip() in capsys.readouterr().out


def test_the_example_of_frames_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = section(NOTEBOOK, "Read a run folder")
    (code,), (shown,) = blocks(part), blocks(part, "text")
    store = Store.create(tmp_path / "results" / "runs" / "digit-pairs-c-5", "digit-pairs-c-5")
    for method in ("source", "eata"):
        save(store, make_record(method, suite="digit-pairs-c-5", task="snow"))
    exec(code, {})
    words = capsys.readouterr().out.split()
    assert words[:4] == shown.split()[:4]
    assert words[-9:] == ["False", "True", "source", "False", "50", "0", "True", "0", "50"]


def test_the_page_of_embedded_suites_names_the_best_of_all_methods() -> None:
    with (ROOT / "results" / "digits-c-5-all" / "leaderboard.csv").open() as file:
        scores = list(csv.DictReader(file))
    means = {
        name: 100 * mean(float(s["top1"]) for s in scores if s["label"] == name)
        for name in {s["label"] for s in scores}
    }
    best = sorted(means, key=lambda name: -means[name])[:3]
    said = re.search(r"The best there are (.*?)\. EATA has (.*?), Source (.*?)\.\n", EMBEDDED, re.DOTALL)
    assert said is not None
    assert [name.lower() for name in re.findall(r"([\w-]+) \(", said[1])] == best
    shown = [*re.findall(r"\((.*?) %\)", said[1]), said[2][:-2], said[3][:-2]]
    assert shown == [f"{means[name]:.1f}" for name in (*best, "eata", "source")]


def test_the_example_of_frames_shows_the_numbers_of_the_results() -> None:
    with (ROOT / "results" / "digit-pairs-c-5" / "leaderboard.csv").open() as file:
        scores = list(csv.DictReader(file))
    (shown,) = blocks(section(NOTEBOOK, "Read a run folder"), "text")
    lines = [line.split() for line in shown.splitlines()]
    methods = {line[0]: [float(word) for word in line[1:]] for line in lines[2:8]}
    assert set(methods) == {row["method"] for row in scores}
    for method, (accuracy, ece, forwards) in methods.items():
        own = [row for row in scores if row["method"] == method]
        assert accuracy == pytest.approx(100 * mean(float(row["top1"]) for row in own), abs=0.006)
        assert ece == pytest.approx(mean(float(row["ece"]) for row in own), abs=0.0051)
        assert forwards == pytest.approx(mean(float(row["forwards_per_image"]) for row in own), abs=0.0051)
    wrong, right = ([int(word) for word in line[1:]] for line in lines[-2:])
    images = sum(wrong) + sum(right)
    snow = {row["method"]: float(row["top1"]) for row in scores if (row["task"], row["seed"]) == ("snow", "0")}
    assert sum(right) / images == pytest.approx(snow["source"], abs=0.00006)
    assert (wrong[1] + right[1]) / images == pytest.approx(snow["eata"], abs=0.00006)


def test_the_columns_of_frames_are_listed(run: Path) -> None:
    listed = re.findall(r"^\| ([a-z0-9_, ]+) \|", section(NOTEBOOK, "The run frame"), re.MULTILINE)[1:]
    assert set(", ".join(listed).split(", ")) == set(tta_bench.frame(run).columns)
    assert ", ".join(tta_bench.predictions(run).columns) in " ".join(NOTEBOOK.split())


def test_the_links_lead_somewhere() -> None:
    for file in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "results").rglob("*.md"),
    ]:
        text = file.read_text()
        for target in re.findall(r"\]\((?!https?:)([^)]*)\)", text):
            path, _, anchor = target.partition("#")
            there = (file.parent / path) if path else file
            assert there.exists(), f"{file.name}: {target}"
            if anchor:
                titles = re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
                assert anchor in slugs, f"{file.name}: {target}"


def test_the_target_of_the_export_guide_writes(run: Path, tmp_path: Path) -> None:
    lines = run_blocks(*blocks(EXPORT))["Lines"]
    lines().write(collect(Runs([run])), tmp_path)  # type: ignore[operator]
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 4
    assert all(f"| `{name}` |" in EXPORT for name in exporters().names())


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == setup["metadata"]["version"]
    (entry,) = blocks((ROOT / "docs" / "cite.md").read_text(), "bibtex")
    assert f"title   = {{{citation['title']}}}" in entry
    assert f"version = {{{citation['version']}}}" in entry


def test_the_files_of_a_paper_are_listed() -> None:
    part = section(REPORT, "Published beside measured")
    listed = re.search(r"the folders of `tta_bench/papers/` \((.*?)\)", part)
    assert listed is not None
    assert sorted(listed[1].split(", ")) == sorted(paper.names())
    for file in ("accuracy.csv", "minutes.csv"):
        head = (paper.HOME / "dpal" / file).read_text().splitlines()[0]
        assert f"| `{file}` | `{head}`" in part
    assert all(f"`{provenance}`" in part for provenance in paper.PROVENANCES)
