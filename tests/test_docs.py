"""What the documents say is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tta_bench import suite
from tta_bench.datasets import open_dataset
from tta_bench.datasets.imagenet import CLEAN_FOLDERS
from tta_bench.errors import UserError

DATASETS = Path(__file__).parent.parent / "docs" / "datasets.md"


def test_clean_imagenet_has_one_name_in_error_and_document(tmp_path: Path) -> None:
    found = suite.load("imagenet-c-5")
    wanted = f"{CLEAN_FOLDERS[0]}/<wnid>/*.JPEG"
    with pytest.raises(UserError) as caught:
        open_dataset(found.data, found.tasks, tmp_path).source_images()
    assert str(tmp_path / wanted) in str(caught.value)
    text = DATASETS.read_text()
    assert f"`{wanted}`" in text
    assert f"make-corrupted --from {CLEAN_FOLDERS[0]} " in text
