"""The sdist is the whole source, and the wheel has all that a run needs: suites, checkpoint, methods, papers."""

from __future__ import annotations

import configparser
import email
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.checkout import ROOT, copied


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to build from, as setuptools leaves a build folder behind."""
    return copied(ROOT, tmp_path_factory.mktemp("source") / "tta-bench")


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked."""
    out = tmp_path_factory.mktemp("sdist")
    build("--sdist", source, out)
    with tarfile.open(next(out.glob("*.tar.gz"))) as archive:
        archive.extractall(out, filter="data")
    return next(path for path in out.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the sdist makes, as an index would serve it."""
    out = tmp_path_factory.mktemp("wheel")
    build("--wheel", sdist, out)
    return next(out.glob("*.whl"))


def build(what: str, source: Path, out: Path) -> None:
    command = [sys.executable, "-m", "build", what, "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True)


def test_an_index_would_take_both(source: Path, wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("twine")
    build("--sdist", source, tmp_path)
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), *map(str, tmp_path.glob("*.tar.gz"))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2


def test_the_metadata_is_what_setup_cfg_says(wheel: Path) -> None:
    content = zipfile.ZipFile(wheel)
    (name,) = [name for name in content.namelist() if name.endswith(".dist-info/METADATA")]
    about = email.message_from_string(content.read(name).decode())
    said = configparser.ConfigParser()
    said.read(ROOT / "setup.cfg")
    metadata, options = said["metadata"], said["options"]

    assert (about["Name"], about["Version"]) == (metadata["name"], metadata["version"])
    assert about["Summary"] == metadata["description"]
    assert about["License-Expression"] == metadata["license_expression"]
    assert about["Requires-Python"] == options["python_requires"]
    assert about.get_all("Classifier") == listed(metadata["classifiers"])
    assert about["Description-Content-Type"] == metadata["long_description_content_type"]
    assert about.get_payload().strip() == (ROOT / "README.md").read_text().strip()
    extras = said["options.extras_require"]
    assert set(about.get_all("Provides-Extra", [])) == set(extras)
    needed: dict[str, set[Requirement]] = {extra: set() for extra in ("", *extras)}
    for line in about.get_all("Requires-Dist", []):
        requirement, _, marker = line.partition(";")
        needed[marker.partition("==")[2].strip(" \"'")].add(Requirement(requirement))
    texts = {"": options["install_requires"], **extras}
    assert needed == {extra: set(map(Requirement, listed(text))) for extra, text in texts.items()}


def listed(text: str) -> list[str]:
    """The lines of a list in setup.cfg, without comments."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_sdist_is_the_whole_source(source: Path, sdist: Path) -> None:
    there = {name for name in files(source) if not name.startswith(("build/", "tta_bench.egg-info/"))}
    assert {"tests/conftest.py", "tests/golden/dpal.npz", "Makefile", "constraints.txt"} <= there
    assert there - files(sdist) == set()


def test_everything_is_in_the_wheel(source: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    homes = {"tta_bench": "tta_bench", "methods": "tta_bench_methods"}
    expected = {f"{package}/{name}" for home, package in homes.items() for name in files(source / home)}
    assert {"tta_bench/datasets/imagenet_wnids.txt", "tta_bench/papers/dpal/accuracy.csv"} <= expected
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_checkout_and_sdist_make_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    build("--wheel", source, tmp_path)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(tmp_path / wheel.name) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


def test_the_wheel_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Installed beside this environment's torch, but away from the checkout."""
    venv.create(tmp_path / "venv", with_pip=False, system_site_packages=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    torch = find_spec("torch")
    assert torch is not None
    ours = Path(str(torch.origin)).parents[1]
    # The dependencies by path, but not the .pth files there, which would bring the editable checkout back.
    (site / "dependencies.pth").write_text(f"{ours}\n")
    command = [python, "-m", "tta_bench.cli.main", "run", "--methods", "source,tent", "--limit", "32", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "demo: accuracy" in done.stdout
    where = subprocess.run(
        [python, "-c", "import tta_bench; print(tta_bench.__file__)"], cwd=tmp_path, capture_output=True, text=True
    )
    assert str(tmp_path) in where.stdout
