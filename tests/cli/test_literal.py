"""The screen shows user-given names literally: rich would read [brackets] as markup and :words: as emoji."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.support import trees
from tests.support.cli import SMALL, Cli
from tta_bench.cli import options
from tta_bench.cli.progress import status_line
from tta_bench.runs import execute as bench


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Markup, an emoji, an unopened tag, and more letters than fit on a line."""
    return tmp_path / f"odd [dir] mc[red] :smile: {'long ' * 30}closing [" / "x]"


def test_a_run_names_its_folders(cli: Cli, folder: Path, small_suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_suite.write_text(SMALL.replace("two tasks of the embedded digits", "'[/x] [red] tasks'"))
    command = ("run", "--suite", small_suite, "--methods", "source", "--limit", 8, "--out", folder)
    assert cli(*command)[0] == 0
    status, shown, _ = cli(*command, "--fresh")
    (old,) = folder.parent.glob("*.old-*")
    assert status == 0
    assert f"Renamed the old folder to {old}\n" in shown
    assert "small: [/x] [red] tasks\n" in shown
    assert f"Written: {folder / 'report' / 'report.md'}, " in shown
    assert f"Written: {folder / 'report' / 'report.md'}, " in cli("report", folder)[1]

    def interrupted(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run_cell", interrupted)
    assert f"cells are saved in {folder}. Run the same" in cli(*command, "--seeds", 1)[1]


def test_make_corrupted_names_its_folder(cli: Cli, folder: Path, tmp_path: Path) -> None:
    clean = trees.clean_imagenet(tmp_path, "clean [/y]", classes=1, each=1)
    (clean / "n01440764" / "bad.JPEG").write_text("no image")
    words = ("--corruptions", "fog", "--size", 32, "--workers", 1)
    status, shown, _ = cli("make-corrupted", "--from", clean, "--out", folder, *words)
    assert status == 1
    assert f"2 images, 1 files each, into {folder}\n" in shown
    assert f"BAD {clean / 'n01440764' / 'bad.JPEG'}: not an image" in shown


def test_train_source_names_its_file(cli: Cli, folder: Path) -> None:
    status, shown, _ = cli("train-source", "digits", "--epochs", 1, "--out", folder / "a.safetensors")
    assert status == 0
    assert f"{folder / 'a.safetensors'} (note: {folder / 'a.md'}): " in shown


def test_figure_and_compare_name_their_files(cli: Cli, run: Path, folder: Path) -> None:
    status, shown, _ = cli("figure", run, "pareto", "--out", folder / "p", "--format", "png")
    assert (status, f"Written: {folder / 'p.png'}\n" in shown) == (0, True)
    status, shown, _ = cli("compare", run, "--a", "source", "--b", "better", "--out", folder)
    assert (status, f"Written: {folder / 'compare.md'}, " in shown) == (0, True)


def test_inspect_names_its_files(cli: Cli, folder: Path) -> None:
    words = ("--method", "source", "--tasks", "fog", "--batches", 1, "--images", 1)
    status, shown, _ = cli("inspect", *words, "--out", folder)
    assert (status, f"Written: {folder}/" in shown) == (0, True)


def test_a_status_line_is_text() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True)
    with status_line(screen) as show:
        show("tent (note=[/x])")
    assert "tent (note=[/x])" in screen.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("make", [options.console, options.narrow_console])
def test_every_screen_is_literal(capsys: pytest.CaptureFixture[str], make: object) -> None:
    screen: Console = make()  # type: ignore[operator]
    screen.print("[red]a[/x] :smile:")
    assert capsys.readouterr().out == "[red]a[/x] :smile:\n"
