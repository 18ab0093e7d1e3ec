"""A worker starts a model before the first timed batch, whatever shape its images have."""

from __future__ import annotations

from pathlib import Path

import tta_bench


def test_a_model_of_oblong_images_is_warmed_up_too(tmp_path: Path) -> None:
    """The demo's drawings have 16 x 32 pixels."""
    ran = tta_bench.run(methods=["source"], suite="demo", tasks=["snow"], limit=32, out=tmp_path / "run")
    assert [(record.status, record.reason) for record in ran.records] == [("done", "")]
