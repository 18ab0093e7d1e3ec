"""`tta-bench cite`: entries from the things themselves, and a paragraph from records alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.cli import Cli
from tests.support.records import keep, make_failure, make_record
from tta_bench import plugins, registry
from tta_bench.records.store import Store
from tta_bench.report import bibtex
from tta_bench.suites import suite as suites

BOARD = ROOT / "results" / "board"
NEEDED = ("title", "author", "year")


def test_every_built_in_method_but_source_has_an_entry() -> None:
    lacking = [name for name in registry.installed().names() if not bibtex.of_method(name)]

    assert lacking == ["source"]


def test_entries_are_whole_and_a_key_means_one_text() -> None:
    nouns = "dataset", "model"
    found = [entry for name in registry.installed().names() for entry in bibtex.of_method(name)]
    found += [entry for noun in nouns for name in plugins.group(noun).names() for entry in bibtex._stated(noun, name)]
    found += [entry for name in suites.names() for entry in bibtex.entries(suites.load(name).bibtex)]
    found += bibtex.of_model("vit_base_patch16_224.augreg_in21k_ft_in1k")
    texts: dict[str, set[str]] = {}
    for entry in found:
        texts.setdefault(entry.key, set()).add(entry.text)
        assert entry.text.count("{") == entry.text.count("}"), entry.text
        assert entry.text.endswith("}"), entry.text
        assert all(re.search(rf"^ +{field} = ", entry.text, re.MULTILINE) for field in NEEDED), entry.text

    assert len(texts) > 35
    assert [key for key, own in texts.items() if len(own) > 1] == []


def test_a_method_that_builds_on_another_cites_both() -> None:
    assert [entry.key for entry in bibtex.of_method("sar-come")] == ["zhang2025come", "niu2023sar"]


def test_a_suite_adds_the_paper_of_its_data() -> None:
    assert "recht2019imagenet" in suites.load("imagenet-v2").bibtex


@pytest.mark.parametrize("method", ["sar", "eata", "foa"])
def test_a_paragraph_says_what_a_reviewer_asks(method: str, cli: Cli) -> None:
    _, said, _ = cli("cite", BOARD / f"{method}-digits-c-5" / "run.zip")

    for words in (
        "digits-vit [@tta_bench]",
        "hash b3b96e5ce045dae8",
        "every task starts from the source",
        "Seeds 0, 1, 2",
        "Batches of 32",
        "before the update",
        "published defaults",
        "commit d43bda0e570b",
    ):
        assert words in said
    cited = {key for group in re.findall(r"\[(@[^]]+)\]", said) for key in re.findall(r"@([\w-]+)", group)}
    assert cited == {entry.key for entry in bibtex.entries(said)}
    assert ("Source images were used before the stream by" in said) == (method != "sar")


def test_latex_escapes_and_cites_and_files_are_written(cli: Cli, tmp_path: Path) -> None:
    run = BOARD / "sar-digits-c-5" / "run.zip"
    _, text, _ = cli("cite", run, "--format", "latex")
    cli("cite", run, "--out", tmp_path / "paper")

    assert "sar~\\cite{niu2023sar}" in text
    assert "reset\\_threshold=0.02" in text
    assert sorted(file.name for file in (tmp_path / "paper").iterdir()) == ["cite.bib", "methods.md", "methods.tex"]
    assert (tmp_path / "paper" / "methods.tex").read_text() in text


def test_settings_of_a_command_line_are_not_called_chosen(cli: Cli, tmp_path: Path) -> None:
    cli("run", "--suite", "digits-c-5", "--methods", "tent", "--tasks", "fog", "--limit", "32", "--set", "tent.lr=0.02",
        "--in-process", "--out", tmp_path / "run")  # fmt: skip
    _, said, _ = cli("cite", tmp_path / "run")

    assert "tent (lr=0.02): lr=0.02" in said
    assert "How those of tent (lr=0.02) were chosen is not recorded" in said
    assert "only 32 images of each task" in said


def test_it_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from tta_bench.cli.main import main; "
        f"sys.exit(main(['cite', r'{BOARD / 'sar-digits-c-5' / 'run.zip'}']))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_a_row_that_failed_is_left_out_by_name(tmp_path: Path, cli: Cli) -> None:
    store = Store.create(tmp_path / "run", "digits-c-5")
    for record in (make_record("source"), make_failure("tent", "it broke")):
        keep(store, record)
    _, said, _ = cli("cite", tmp_path / "run")

    assert "wang2021tent" not in said
    assert "Left out, as no cell of it is finished: tent." in said
