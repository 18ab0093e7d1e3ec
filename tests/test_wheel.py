"""The wheel carries everything: suites, checkpoint, methods and their entry points."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    copy = out / "source"  # setuptools leaves a build folder behind, so not in the checkout
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True
    )
    for name in listed.stdout.split():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_everything_is_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in (ROOT / "tta_bench").rglob("*"):
        if path.suffix in (".py", ".yaml", ".safetensors", ".md", ".typed", ".css", ".js", ".html"):
            assert str(path.relative_to(ROOT)) in names
    for path in (ROOT / "methods").glob("*.py"):
        assert f"tta_bench_methods/{path.name}" in names
    assert not any(name.startswith(("methods/", "tests/", "benchmarks/")) for name in names)


def test_it_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Installed beside this environment's torch, but away from the checkout."""
    venv.create(tmp_path / "venv", with_pip=False, system_site_packages=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    ours = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    # The dependencies by path, but not the .pth files there, which would bring the editable checkout back.
    (site / "dependencies.pth").write_text(f"{ours}\n")
    command = [python, "-m", "tta_bench.cli.main", "run", "--methods", "source,tent", "--limit", "32", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "digits-c-5: accuracy" in done.stdout
    where = subprocess.run(
        [python, "-c", "import tta_bench; print(tta_bench.__file__)"], cwd=tmp_path, capture_output=True, text=True
    )
    assert str(tmp_path) in where.stdout
