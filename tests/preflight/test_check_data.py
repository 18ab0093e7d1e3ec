"""`check --every-image` names all bad files, and reports a shared cause once."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from tests.support import trees
from tests.support.cli import Cli
from tests.support.small import small_vit
from tta_bench.cli import options
from tta_bench.data.images import ArrayImages
from tta_bench.datasets import opening
from tta_bench.datasets.opening import refuse_bad
from tta_bench.errors import UserError
from tta_bench.models.source import SourceModel

HEAD = "name: mine\nabout: a test\nmodel: none\nbatch_size: 2\n"
IMAGENET_C = (
    f"{HEAD}methods: {{source: {{}}}}\ntasks: [fog, snow]\n"
    "data: {kind: imagenet-c, severity: 5, allow_partial: true}\n"
)
IMAGENET_R = (
    f"{HEAD}methods: {{source: {{}}, tent: {{}}, eata: {{}}}}\ntasks: [imagenet-r]\n"
    "data: {kind: class-folders, folder: imagenet-r, classes: 200, images: 30000, allow_partial: true}\n"
)


@pytest.fixture
def half_bad(tmp_path: Path) -> Path:
    """A data root with a suite: 30 of the 60 fog files are not images, snow is fine."""
    home = trees.imagenet_c(tmp_path, ("fog", "snow"), classes=2, each=30)
    for i in range(1, 61, 2):
        (bad,) = home.glob(f"fog/5/*/ILSVRC2012_val_{i:08d}.JPEG")
        bad.write_text("<html>404</html>")
    (tmp_path / "suite.yaml").write_text(IMAGENET_C)
    return tmp_path


def test_every_image_is_opened_and_the_bad_ones_named(cli: Cli, half_bad: Path) -> None:
    status, shown, _ = cli("check", "--every-image", "--suite", half_bad / "suite.yaml", "--data-root", half_bad)
    lines = shown.splitlines()
    start = lines.index("ERROR task fog: 30 of 60 images are bad:")
    folder = half_bad / "ImageNet-C" / "fog" / "5"
    assert lines[start + 1] == f"      {folder}/n01440764/ILSVRC2012_val_00000001.JPEG: not an image: replace this file"
    assert sum("replace this file" in line for line in lines) == opening.SHOWN
    assert lines[start + 1 + opening.SHOWN] == "      and 10 more"
    assert any(line.startswith("ok    task snow: 2 classes, 60 images, 60 opened") for line in lines)
    assert status == 2


def test_a_terminal_shows_progress(cli: Cli, half_bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(options, "console", lambda: Console(file=screen, force_terminal=True, width=200))
    cli("check", "--every-image", "--suite", half_bad / "suite.yaml", "--data-root", half_bad)
    assert "opening snow" in screen.getvalue()
    assert "60/60" in screen.getvalue()


def test_several_threads_report_in_order_and_stop_when_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "cores", lambda: 4)
    threads = set()

    class Images(ArrayImages):
        def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
            threads.add(threading.get_ident())
            if indices[0] % 100 == 0:
                raise UserError(f"image {indices[0]}")
            return super().read(indices)

    images = Images(np.zeros((1000, 3, 2, 2), np.uint8), np.zeros(1000, np.int64), [str(i) for i in range(1000)])
    reported: list[tuple[int, int]] = []
    with pytest.raises(UserError, match=r"10 of 1,000 images are bad:\s+image 0\s+image 100\s+image 200"):
        refuse_bad(images, lambda done, total: reported.append((done, total)))
    assert reported == [*((done, 1000) for done in range(opening.TURN, 1000, opening.TURN)), (1000, 1000)]
    assert threading.get_ident() not in threads

    reads: list[int] = []

    class Slow(Images):
        def read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
            reads.append(indices[0])
            time.sleep(0.002)
            return super(Images, self).read(indices)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refuse_bad(Slow(images._images, images.labels, images.ids), interrupt)
    assert len(reads) < 1000, "those that waited their turn were not opened"


def test_with_unknown_classes_no_method_is_tried_and_the_cause_is_reported_once(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SourceModel("toy", small_vit(num_classes=1000), 1000, (0.5,) * 3, (0.5,) * 3, "0" * 16, input_size=16)
    monkeypatch.setattr("tta_bench.models.source.load", lambda name: model)
    trees.clean_imagenet(tmp_path)
    suite = tmp_path / "suite.yaml"
    suite.write_text(IMAGENET_R)
    status, shown, _ = cli("check", "--suite", suite, "--data-root", tmp_path, "--model", "toy")
    assert (status, shown.count("ERROR"), shown.count("no data for this suite")) == (2, 1, 1)
    assert "methods on toy: not tried, the classes are unknown" in shown


def test_tasks_that_lack_the_same_folder_are_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(IMAGENET_C)
    status, shown, _ = cli("check", "--suite", tmp_path / "suite.yaml", "--data-root", tmp_path, "--model", "toy")
    assert (status, shown.count("no data for this suite")) == (2, 1)
    assert "ERROR task fog and 1 more: no data for this suite" in shown
