"""The notebook runs from an empty folder, and prints what is stored in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
CELLS: list[dict[str, Any]] = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
END = "--- end of a cell ---"


def printed(cell: dict[str, Any]) -> str:
    """What a cell wrote to standard output."""
    texts = [output["text"] for output in cell["outputs"] if output.get("name") == "stdout"]
    return "".join("".join(text) for text in texts)


def exact(printouts: list[str]) -> dict[int, str]:
    """The outputs that are the same on every machine, by the cell's number."""
    return {number: text for number, text in enumerate(printouts) if "exact" in CELLS[number]["metadata"]["tags"]}


STORED = exact([printed(cell) for cell in CELLS])


def test_outputs_are_stored() -> None:
    assert sum(bool(text) for text in STORED.values()) == 5
    assert [output["data"].keys() for output in CELLS[-1]["outputs"]] == [{"text/plain", "image/png"}]
    assert all(output.get("name") != "stderr" for cell in CELLS for output in cell["outputs"])


@pytest.mark.slow
def test_a_script_of_its_cells_prints_what_is_stored(tmp_path: Path) -> None:
    script = f"\nprint({END!r})\n".join("".join(cell["source"]) for cell in CELLS)
    (tmp_path / "cells.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "cells.py"],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert exact(done.stdout.split(f"{END}\n")) == STORED


@pytest.mark.slow
def test_a_kernel_prints_what_is_stored(tmp_path: Path) -> None:
    client, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    assert exact([printed(cell) for cell in notebook.cells if cell.cell_type == "code"]) == STORED
