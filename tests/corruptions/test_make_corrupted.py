"""`make-corrupted` writes the published tree, resumes, and leaves no partial file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms.v2 import CenterCrop, Compose, InterpolationMode, Resize

from tests.support import trees
from tests.support.cli import Cli
from tests.support.denied import denied
from tta_bench.corruptions import CORRUPTIONS, corrupt
from tta_bench.datasets import make_corrupted
from tta_bench.datasets.make_corrupted import Plan, is_whole, make, read_clean
from tta_bench.errors import UserError


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    """Something with edges and colours."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """Two classes of two small images each."""
    folder = tmp_path / "val"
    for i, wnid in enumerate(("n01440764", "n01443537")):
        (folder / wnid).mkdir(parents=True)
        for j in range(2):
            photo(90 + 10 * j, 80, 2 * i + j).save(folder / wnid / f"ILSVRC2012_val_{2 * i + j:08d}.JPEG")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, hidden files too."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


MARKS = {"make-corrupted.json"[:12], ".unfinished-"}  # names, as far as they are the same for all plans
SMALL = ("--size", 64, "--workers", 1)


def test_the_tree_is_the_published_one(cli: Cli, clean: Path, tmp_path: Path) -> None:
    status, shown, _ = cli(
        "make-corrupted", "--from", clean, "--out", tmp_path / "c", "--severities", "1,5", "--corruptions", "fog,snow",
        *SMALL,
    )  # fmt: skip
    assert status == 0
    assert "4 images, 4 files each" in shown
    assert "16 files written, 0 existed" in shown
    assert "images per second" in shown
    expected = {
        f"{c}/{s}/{path.parent.name}/{path.name}" for c in ("fog", "snow") for s in (1, 5) for path in clean.glob("*/*")
    }
    assert set(files(tmp_path / "c")) == expected | {"make-corrupted.json"}


def test_pixels_are_those_of_the_corruption_seeded_by_image(clean: Path, tmp_path: Path) -> None:
    plan = Plan(clean, tmp_path / "c", ("gaussian_noise",), (3,), 64)
    path = clean / "n01443537" / "ILSVRC2012_val_00000003.JPEG"
    list(make(plan, [path], workers=1))
    image_id = "n01443537/ILSVRC2012_val_00000003"
    worse = corrupt(read_clean(path, 64), "gaussian_noise", 3, image_id=image_id, scale="large")
    expected = BytesIO()
    Image.fromarray(worse).save(expected, "JPEG", quality=85, optimize=True)
    written = tmp_path / "c" / "gaussian_noise" / "3" / "n01443537" / path.name
    assert written.read_bytes() == expected.getvalue()
    with Image.open(written) as image:
        assert (image.size, image.mode, image.layer[0][1:3]) == ((64, 64), "RGB", (2, 2))  # 4:2:0


@pytest.mark.parametrize("sides", [(500, 375), (375, 500), (331, 333), (256, 256), (40, 97), (1, 1)])
def test_clean_images_are_read_as_torchvision_reads_them(sides: tuple[int, int], tmp_path: Path) -> None:
    photo(*sides).save(tmp_path / "a.png")
    transform = Compose([Resize(256, InterpolationMode.BILINEAR), CenterCrop(224)])
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(read_clean(tmp_path / "a.png", 224), np.asarray(transform(image)))


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_grey_and_cmyk_images_become_rgb(mode: str, tmp_path: Path) -> None:
    photo(80, 70).convert(mode).save(tmp_path / "a.jpg")
    assert read_clean(tmp_path / "a.jpg", 64).shape == (64, 64, 3)


def test_processes_and_restarts_change_nothing(cli: Cli, clean: Path, tmp_path: Path) -> None:
    command = ("make-corrupted", "--from", clean, "--corruptions", "frost,motion_blur", "--size", 64)
    assert cli(*command, "--out", tmp_path / "one", "--workers", 1)[0] == 0
    assert cli(*command, "--out", tmp_path / "two", "--workers", 2)[0] == 0
    assert files(tmp_path / "one") == files(tmp_path / "two")
    first = min((tmp_path / "one" / "frost").rglob("*.JPEG"))
    last = max((tmp_path / "one" / "frost").rglob("*.JPEG"))
    first.unlink()
    last.write_bytes(last.read_bytes()[:-100])  # as after a power cut
    status, shown, _ = cli(*command, "--out", tmp_path / "one", "--workers", 1)
    assert (status, "2 files written, 6 existed" in shown) == (0, True)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_each_clean_image_is_decoded_once_and_only_if_needed(
    clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counted(path: Path, size: int) -> object:
        read.append(path)
        return read_clean(path, size)

    monkeypatch.setattr(make_corrupted, "read_clean", counted)
    images = sorted(clean.glob("*/*"))
    plan = Plan(clean, tmp_path / "c", ("contrast", "pixelate"), (1, 5), 64)
    assert [outcome.written for outcome in make(plan, images, 1)] == [4] * 4
    assert [outcome.kept for outcome in make(plan, images, 1)] == [4] * 4
    assert read == images


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_images_are_named_and_the_others_made(cli: Cli, clean: Path, tmp_path: Path, workers: int) -> None:
    cut = clean / "n01440764" / "cut.JPEG"
    whole = (clean / "n01440764" / "ILSVRC2012_val_00000000.JPEG").read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    (clean / "n01443537" / "note.JPEG").write_text("no image")
    command = ("make-corrupted", "--from", clean, "--out", tmp_path / "c", "--corruptions", "fog", "--size", 64)
    status, shown, _ = cli(*command, "--workers", workers)
    assert status == 1
    assert f"BAD {cut}: cannot be read as an image (image file is truncated" in shown
    assert "note.JPEG: not an image" in shown
    assert "2 of 6 images cannot be read" in shown
    assert len(list((tmp_path / "c" / "fog" / "5").rglob("*.JPEG"))) == 4
    photo(90, 80).save(cut)
    (clean / "n01443537" / "note.JPEG").unlink()
    status, shown, _ = cli(*command, "--workers", 1)
    assert (status, "1 files written, 4 existed" in shown) == (0, True)


def test_an_interrupt_leaves_complete_files_and_says_how_to_resume(
    cli: Cli, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(*words: object, **more: object) -> object:
        calls.append(words)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return corrupt(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(make_corrupted, "corrupt", interrupted)
    command = ("make-corrupted", "--from", clean, "--out", tmp_path / "c", "--corruptions", "fog,snow", *SMALL)
    status, shown, _ = cli(*command)
    assert status == 130
    assert "1 of 4 images are done. Run the same command again to resume." in shown
    assert len(files(tmp_path / "c")) == 2 + len(MARKS)
    monkeypatch.undo()
    status, shown, _ = cli(*command)
    assert (status, "6 files written, 2 existed" in shown) == (0, True)


def test_an_interrupt_in_the_middle_of_a_file_leaves_none_of_it(
    cli: Cli, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(self: Image.Image, path: Path, *words: object, **more: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Image.Image, "save", half)
    assert cli("make-corrupted", "--from", clean, "--out", tmp_path / "c", *SMALL)[0] == 130
    assert {name[:12] for name in files(tmp_path / "c")} == MARKS


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_scheduler_stop_all_processes(tmp_path: Path, by: signal.Signals) -> None:
    """The real thing: a terminal sends the signal to the command and to its workers, and so does a scheduler."""
    for i in range(200):
        (tmp_path / "val" / "n01").mkdir(parents=True, exist_ok=True)
        (tmp_path / "val" / "n01" / f"{i}.JPEG").write_bytes(b"")
    for path in (tmp_path / "val" / "n01").iterdir():
        photo(90, 80).save(path)
    words = ["make-corrupted", "--from", "val", "--out", "c", "--workers", "2"]
    # Tests that were started in the background, and their children, ignore the signal.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listen}; import sys; from tta_bench.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not list((tmp_path / "c").rglob("*/n01/*.JPEG")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(command.pid, by)
    shown, err = command.communicate(timeout=120)
    assert (command.returncode, err) == (130, "")
    assert "Run the same command again to resume." in shown
    made = list((tmp_path / "c").rglob("*.JPEG"))
    assert 0 < len(made) < 3000
    assert all(is_whole(path) for path in made)
    assert not list((tmp_path / "c").glob(".parts-*"))


def test_a_disk_that_fills_up_is_one_line(
    cli: Cli, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Image.Image, *words: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    status, _, err = cli("make-corrupted", "--from", clean, "--out", tmp_path / "c", *SMALL)
    assert (status, err.count("\n")) == (2, 1)
    assert "cannot be written (No space left on device): make room" in err
    assert {name[:12] for name in files(tmp_path / "c")} == MARKS


def test_a_tree_made_differently_is_refused(cli: Cli, clean: Path, tmp_path: Path) -> None:
    command = ("make-corrupted", "--from", clean, "--out", tmp_path / "c", "--corruptions", "fog", "--workers", 1)
    assert cli(*command, "--size", 64)[0] == 0
    before = files(tmp_path / "c")
    status, _, err = cli(*command, "--size", 96)
    assert (status, "was made differently" in err, err.count("\n")) == (2, True, 1)
    assert files(tmp_path / "c") == before


@pytest.mark.parametrize("there", ["fog/5/n01440764/a.JPEG", "speckle_noise/1/a.JPEG", "frost.tar", "weather.tar"])
def test_an_incomplete_download_is_refused(cli: Cli, clean: Path, tmp_path: Path, there: str) -> None:
    (tmp_path / "c" / there).parent.mkdir(parents=True)
    (tmp_path / "c" / there).write_bytes(b"made elsewhere")
    before = files(tmp_path / "c")
    status, _, err = cli("make-corrupted", "--from", clean, "--out", tmp_path / "c", "--corruptions", "snow", *SMALL)
    assert (status, err.count("\n")) == (2, 1)
    assert f"--out {tmp_path / 'c'} has {there.split('/')[0]} but no make-corrupted.json" in err
    assert err.endswith("choose another --out\n")
    assert files(tmp_path / "c") == before


def test_other_files_in_the_folder_do_not_matter(cli: Cli, clean: Path, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "README").touch()
    assert cli("make-corrupted", "--from", clean, "--out", tmp_path / "c", "--corruptions", "snow", *SMALL)[0] == 0


def test_parts_of_killed_processes_are_removed(clean: Path, tmp_path: Path) -> None:
    old, live = tmp_path / "c" / ".parts-old", tmp_path / "c" / ".parts-live"
    for folder in (old, live):
        folder.mkdir(parents=True)
        (folder / "1.JPEG").write_bytes(b"half")
    os.utime(old, (0, 0))
    list(make(Plan(clean, tmp_path / "c", ("fog",), (5,), 64), [], 1))
    assert (old.exists(), live.exists()) == (False, True)


BAD = [
    (["--from", "nowhere"], "--from nowhere: no such folder"),
    (["--from", "flat"], "--from flat has no class folders"),
    (["--from", "hollow"], "class folder hollow/n02 is empty"),
    (["--from", "twice"], "differ only in their suffix"),
    (["--out", "val/c"], "--out val/c lies inside --from val"),
    (["--out", "val"], "lies inside --from"),
    (["--out", "file"], "--out file cannot be used: File exists"),
    (["--out", "file/c"], "--out file/c cannot be used: Not a directory"),
    (["--corruptions", "frog"], "unknown corruption 'frog'; did you mean 'fog'?"),
    (["--corruptions", "fog,fog"], "'fog' is listed twice"),
    (["--severities", "6"], "expected numbers from 1 to 5 as in 1,3,5, got '6'"),
    (["--severities", "1,1"], "listed twice"),
    (["--workers", "0"], "expected a whole number of at least 1"),
    (["--size", "8"], "size: expected at least 32 pixels, got 8"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_mistake_is_one_line_and_status_2(
    cli: Cli, clean: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clean.parent)
    for name in ("flat/a.JPEG", "hollow/n01/a.JPEG", "hollow/n02/read.me", "twice/n01/a.JPEG", "twice/n01/a.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(b"")
    Path("file").write_text("mine")
    before = files(Path())
    status, _, err = cli("make-corrupted", "--from", "val", "--out", "c", *words)
    assert (status, err.count("\n")) == (2, 1), err
    assert said in err
    assert files(Path()) == before


def test_a_read_only_folder_is_one_line(cli: Cli, clean: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    with denied(tmp_path / "locked", 0o555):
        status, _, err = cli("make-corrupted", "--from", clean, "--out", tmp_path / "locked")
    assert (status, "Permission denied" in err, err.count("\n")) == (2, True, 1)


def test_it_never_imports_torch() -> None:
    heavy = "('torch', 'timm', 'sklearn')"
    code = f"import sys, tta_bench.datasets.make_corrupted; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_default_is_all_fifteen_at_severity_5() -> None:
    plan = Plan(Path(), Path())
    assert (plan.corruptions, plan.severities, plan.size) == (CORRUPTIONS, (5,), 224)


def test_an_unfinished_tree_is_refused_until_it_is_finished(clean: Path, tmp_path: Path) -> None:
    images = sorted(clean.glob("*/*"))
    plan = Plan(clean, tmp_path / "ImageNet-C", ("fog", "snow"), (5,), 64)
    list(make(replace(plan, corruptions=("contrast",)), images, 1))
    interrupted = make(plan, images, 1)
    next(interrupted)
    interrupted.close()
    data = trees.partial("imagenet-c", tmp_path, severity=5)
    for task in ("fog", "snow"):
        with pytest.raises(UserError, match=f"{task}/5: make-corrupted has not finished it: run the same"):
            data.open(task)
    assert len(data.open("contrast").ids) == 4
    list(make(plan, images, 1))
    assert len(trees.partial("imagenet-c", tmp_path, severity=5).open("fog").ids) == 4


def test_a_tree_with_unreadable_images_is_unfinished(clean: Path, tmp_path: Path) -> None:
    images = sorted(clean.glob("*/*"))
    good = images[0].read_bytes()
    images[0].write_bytes(b"")
    plan = Plan(clean, tmp_path / "ImageNet-C", ("fog",), (5,), 64)
    list(make(plan, images, 1))
    with pytest.raises(UserError, match="not finished"):
        trees.partial("imagenet-c", tmp_path, severity=5).open("fog")
    images[0].write_bytes(good)
    list(make(plan, images, 1))
    assert trees.partial("imagenet-c", tmp_path, severity=5).open("fog")
