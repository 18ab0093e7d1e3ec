"""`list` shows what is available, in as many columns as the screen has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import trees
from tests.support.cli import Cli
from tta_bench import Method, registry, settings
from tta_bench.suites import suite

WHAT = {"methods": "tent", "suites": "digits-c-5", "models": "digits-vit", "datasets": "imagenet-c"}


@pytest.mark.parametrize(("what", "holds"), WHAT.items())
@pytest.mark.parametrize(("columns", "width"), [(None, 120), ("80", 80), ("100", 100)])
def test_tables_fit_the_width(
    cli: Cli, what: str, holds: str, columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    status, shown, _ = cli("list", what)
    assert status == 0
    assert holds in shown
    assert max(map(len, shown.splitlines())) <= width
    assert all(f" {name} " in shown for name in (suite.names() if what == "suites" else ())), "names stay whole"


@pytest.mark.parametrize(
    ("what", "explained"),
    [
        ("methods", ("batch: the published batch size", "needs: what a run needs", "`tta-bench list methods NAME`")),
        (
            "suites",
            ("needs: folder below --data-root", "found: whether it exists", "paper: the paper and table"),
        ),
        (
            "models",
            (
                "pixels: side of",
                "clean %: accuracy on clean test images, as published",
                "TAG=FILE: a timm model with weights from a local .safetensors, .pth, .bin",
                "hf_hub:OWNER/NAME: a timm model of the Hugging Face hub",
                "tv:NAME[.WEIGHTS][=FILE]: a torchvision model",
                "robustbench:Standard (CIFAR-10): https://drive.google.com/file/d/1t98aEuzeTL8P7Kpd5DIrCoCL21BNZUhC",
            ),
        ),
    ],
)
def test_short_names_are_explained_below(cli: Cli, what: str, explained: tuple[str, ...]) -> None:
    text = " ".join(cli("list", what)[1].split())
    assert [line for line in explained if line not in text] == []


def test_suites_name_their_model_and_layout_in_full(cli: Cli) -> None:
    _, shown, _ = cli("list", "suites")
    lines = [line.strip() for line in shown.splitlines()]
    assert "vit_base_patch16_224.augreg_in21k_ft_in1k" in lines
    assert "ImageNet-C/<corruption>/<severity>/<wnid>/*.JPEG" in shown


def test_found_depends_on_the_data_root(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, shown, _ = cli("list", "suites", "--data-root", tmp_path)
    found = {line.split()[0]: line.split()[5] for line in shown.splitlines() if line.startswith(" digits-c-5")}
    assert found == {"digits-c-5": "yes"}
    assert " ? " not in shown


def test_found_counts_the_existing_tasks(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    home = trees.imagenet_c(tmp_path, ("gaussian_noise",), classes=1, each=1)
    (home / "weather.tar").touch()  # four tasks; `check` finds what is in it
    trees.class_folders(tmp_path, "imagenet-r", trees.some_wnids(1))
    trees.visda(tmp_path, [("a.jpg", 1)]).rename(tmp_path / "visda-2021")
    trees.office_home(tmp_path)
    (tmp_path / "OfficeHome" / "Art").rename(tmp_path / "Art")
    trees.cifar_c(tmp_path)
    _, shown, _ = cli("list", "suites", "--data-root", tmp_path)
    found = {line.split()[0]: " ".join(line.split()[5:]) for line in shown.splitlines() if " " in line.strip()}
    expected = {
        "imagenet-c-5": "5 of 15 tasks",
        "imagenet-c-4": "4 of 15 tasks",
        "cost": "yes",
        "imagenet-r": "yes",
        "imagenet-a": "no",
        "visda-2021": "yes",
        "office-home": "9 of 12 tasks",
        "cifar10-c-5": "1 of 15 tasks",
        "cifar100-c-5": "no",
        "digits-c-5": "yes",
    }
    assert {name: found[name] for name in expected if not found[name].startswith(expected[name])} == {}


def test_a_data_root_that_is_not_a_folder_is_an_error(cli: Cli, tmp_path: Path) -> None:
    status, _, said = cli("list", "suites", "--data-root", tmp_path / "none")
    assert (status, said) == (2, f"tta-bench: error: --data-root {tmp_path / 'none'} is not a folder\n")


@pytest.mark.parametrize("columns", ["40", "79"])
@pytest.mark.parametrize("what", WHAT)
def test_a_narrow_screen_gets_a_line_for_each_value(
    cli: Cli, what: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = cli("list", what)[1].splitlines()
    assert max(map(len, lines)) <= int(columns)
    first = lines.index(f"  {WHAT[what]}") + 1
    expected = {
        "methods": "    paper: Wang et al., ICLR 2021",
        "suites": "    tasks: 15",
        "models": "    classes: 10",
        "datasets": "    options: severity, allow_partial",
    }
    assert lines[first] == expected[what]
    if what == "suites":
        assert lines[first + 1 : first + 5] == [
            "    model: digits-vit",
            "    batch: 32",
            "    needs: nothing",
            "    found: yes",
        ]


@pytest.mark.parametrize(("columns", "spare"), [("80", 4), ("100", 0), ("120", 0)])
def test_methods_take_one_line_each(cli: Cli, columns: str, spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns what a few methods need takes a second line."""
    monkeypatch.setenv("COLUMNS", columns)
    _, shown, _ = cli("list", "methods")
    rows = [line for line in shown.partition("──")[2].partition("  batch:")[0].splitlines()[1:] if line.strip()]
    assert [row.split()[0] for row in rows if row[1] != " "] == registry.installed().names()
    assert len(rows) <= len(registry.installed().names()) + spare


def test_a_method_in_detail_shows_all_settings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    status, shown, _ = cli("list", "methods", "cotta", "sar")
    text = " ".join(shown.split())
    assert status == 0
    assert max(map(len, shown.splitlines())) <= 100
    for name in ("cotta", "sar"):
        cls = registry.installed().load(name)
        for expected in (cls.paper, cls.adapts, cls.passes, *settings.defaults(cls)):
            assert expected in text
    assert "augmentations=32" in text
    assert "entropy_threshold=none" in text


@pytest.mark.parametrize(
    ("name", "size"), [("source", "none stated"), ("bn-test", "none stated"), ("adacontrast", "128"), ("eata", "64")]
)
def test_a_batch_size_is_published_only_if_a_paper_states_it(cli: Cli, name: str, size: str) -> None:
    assert Method.published_batch_size is None, "a package's method claims none by default"
    assert f"published batch size: {size}\n" in cli("list", "methods", name)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("methods", "cota"), "unknown method 'cota'; did you mean 'cotta'?"),
        (("suites", "demo"), "list suites demo: only `list methods` takes names"),
    ],
)
def test_names_that_cannot_be_listed(cli: Cli, words: tuple[str, ...], said: str) -> None:
    status, _, error = cli("list", *words)
    assert (status, error.count("\n")) == (2, 1)
    assert said in error


def test_help_says_how_to_name_a_local_checkpoint(cli: Cli) -> None:
    assert "TAG=FILE" in cli("run", "--help")[1]


def test_settings_on_a_suite_have_the_resolved_rate(cli: Cli, small_suite: Path) -> None:
    status, shown, _ = cli("list", "methods", "sar", "--suite", small_suite)
    assert status == 0
    found = re.search(r"\blr=([0-9.e-]+)", shown)
    assert found is not None
    assert float(found[1]) > 0
    assert "lr=none" in cli("list", "methods", "sar")[1]
    assert "--suite needs names" in cli("list", "methods", "--suite", small_suite)[2]


def test_settings_on_a_suite_whose_weights_are_not_here_are_shown_unresolved(cli: Cli) -> None:
    status, shown, said = cli("list", "methods", "sar", "--suite", "cifar10-c-5-vit-s")
    assert status == 0
    assert "rho=0.05" in shown
    assert "is not resolved" in " ".join((said + shown).split())
