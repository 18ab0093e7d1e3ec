"""Columns of predictions give back the very bytes that were split, and a stranger's columns are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.archives import zipped
from tta_bench.errors import UserError
from tta_bench.packed.address import run_folder
from tta_bench.packed.columns import NAME, SUFFIX, join, split
from tta_bench.records.predictions import OPEN_ROW, Predictions


def predictions(samples: int, unknown: int = 0, seed: int = 0) -> Predictions:
    draw = np.random.default_rng(seed)
    columns = {name: draw.integers(0, 10, samples).astype(OPEN_ROW[name]) for name in OPEN_ROW.names or ()}
    for name in ("confidence", "entropy", "brier", "energy", "own_score"):
        columns[name] = draw.random(samples, np.float32)
    columns["label"][:unknown] = -1
    return Predictions.of_columns(columns)


@pytest.mark.parametrize("samples", [1, 2, 35, 945])  # 35 rows of 27 bytes are 27 rows of 35 bytes
@pytest.mark.parametrize("unknown", [0, 1])
def test_what_is_split_is_joined(samples: int, unknown: int) -> None:
    content = predictions(samples, unknown if samples > 1 else 0).to_bytes()
    name, shared, own = split(content, samples)
    assert join(shared, own, "x") == content
    assert own[:NAME].decode() == name


def test_rows_of_one_stream_share_a_file() -> None:
    one, other = predictions(9).to_bytes(), bytearray(predictions(9).to_bytes())
    other[-1] ^= 1  # a digit of the last image's Brier score
    assert split(one, 9)[0] == split(bytes(other), 9)[0]
    assert split(one, 9)[2] != split(bytes(other), 9)[2]
    assert split(one, 9)[0] != split(predictions(9, seed=1).to_bytes(), 9)[0]


def test_parts_that_do_not_fit_are_refused() -> None:
    _, shared, own = split(predictions(9).to_bytes(), 9)
    for bad_shared, bad_own in ((shared[:-1], own), (shared, own[:-1]), (shared, b""), (b"", own), (shared[:60], own)):
        with pytest.raises(UserError, match="do not fit those of its stream"):
            join(bad_shared, bad_own, "x")


@pytest.mark.parametrize("name", ["0" * 64, "../" * 21 + "x", "\xff" * 32])
def test_columns_without_their_stream_are_refused(tmp_path: Path, name: str) -> None:
    _, shared, own = split(predictions(9).to_bytes(), 9)
    files = {"manifest.json": b"{}", f"streams/{'1' * 64}{SUFFIX}": shared}
    (tmp_path / "run.zip").write_bytes(zipped({**files, f"cells/a{SUFFIX}": name.encode() + own[NAME:]}))
    with pytest.raises(UserError, match="the columns of its stream are missing"):
        run_folder(tmp_path / "run.zip")


def test_columns_beside_the_same_predictions_are_refused(tmp_path: Path) -> None:
    name, shared, own = split(predictions(9).to_bytes(), 9)
    files = {"manifest.json": b"{}", f"streams/{name}{SUFFIX}": shared, f"cells/a{SUFFIX}": own, "cells/a.npy": b""}
    (tmp_path / "run.zip").write_bytes(zipped(files))
    with pytest.raises(UserError, match="cannot be unpacked"):
        run_folder(tmp_path / "run.zip")
