"""Hashes of code: changed prose and folders keep a result valid, what can change a number does not."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tta_bench import registry
from tta_bench.errors import UserError
from tta_bench.identity import code
from tta_bench.identity.code import HARNESS, SHAPES_NOTHING, class_hash, code_hash, harness_hash, source_file
from tta_bench.identity.syntax import syntax

SOURCE = '''"""What it does."""
from __future__ import annotations

from tta_bench.data.seeding import permutation
from torch.nn.functional import relu as act

RATE = 0.1
"""How fast."""


class Method:
    """Learns."""

    steps: int = 3

    def adapt(self, batch: object) -> object:
        """Adapts."""
        if batch is None:
            raise ValueError(f"no batch, {RATE}")
        assert self.steps, "no steps"
        return act(batch) * RATE  # slowly
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# slowly", "# at the published rate"),
        ('"""Adapts."""', '"""Adapts to a batch."""'),
        ('"""What it does."""', '"""What it does, in other words."""'),
        ('"""How fast."""', '"""The rate."""'),
        ("no batch, {RATE}", "got None, expected a batch"),
        ('"no steps"', '"steps is 0"'),
        ("batch: object) -> object", "batch) -> float"),
        ("from tta_bench.data.seeding import permutation", "from tta_bench.other.room import permutation"),
        ("\n\n\nclass", "\n\nclass"),
        ("    steps: int = 3\n", "    steps: int = 3\n    slower_than_source = 200.0\n"),
        ("    steps: int = 3\n", "    steps: int = 3\n    slower_than_source: float = 200.0\n"),
        ("    steps: int = 3\n", "    steps: int = 3\n    bibtex = '@misc{a, title = {b}}'\n"),
    ],
)
def test_prose_and_folders_change_nothing(old: str, new: str) -> None:
    assert old in SOURCE
    assert syntax(SOURCE.replace(old, new)) == syntax(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE = 0.1", "RATE = 0.2"),
        ("steps: int = 3", "steps: int = 4"),
        ("relu as act", "gelu as act"),
        ("torch.nn.functional import", "other.functional import"),
        ("import permutation", "import seed_of"),
        ("* RATE", "+ RATE"),
        ("if batch is None", "if batch is not None"),
        ("raise ValueError", "raise TypeError"),
    ],
)
def test_what_can_change_a_number_counts(old: str, new: str) -> None:
    assert old in SOURCE
    assert syntax(SOURCE.replace(old, new)) != syntax(SOURCE)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a method that borrows code from another package."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "code_lender").mkdir()
    (tmp_path / "code_lender" / "__init__.py").touch()
    (tmp_path / "code_lender" / "sar.py").write_text("class Sar: pass\n")
    (tmp_path / "code_borrower.py").write_text("from code_lender.sar import Sar\nclass Mine(Sar): pass\n")
    code_hash.cache_clear()
    yield tmp_path
    code_hash.cache_clear()


def test_code_that_a_method_borrows_from_another_package_counts(package: Path) -> None:
    packages = frozenset({"code_lender", "code_borrower"})
    alone, both = code_hash("code_borrower"), code_hash("code_borrower", packages)
    (package / "code_lender" / "sar.py").write_text("class Sar: changed = True\n")
    code_hash.cache_clear()
    assert code_hash("code_borrower") == alone
    assert code_hash("code_borrower", packages) != both


def test_a_moved_module_is_the_same_code(package: Path) -> None:
    packages = frozenset({"code_lender", "code_borrower"})
    before = code_hash("code_borrower", packages)
    (package / "code_lender" / "room").mkdir()
    (package / "code_lender" / "sar.py").rename(package / "code_lender" / "room" / "sar.py")
    (package / "code_borrower.py").write_text("from code_lender.room.sar import Sar\nclass Mine(Sar): pass\n")
    code_hash.cache_clear()
    assert code_hash("code_borrower", packages) == before


def test_nothing_is_imported_to_hash_it(package: Path) -> None:
    (package / "code_lender" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    assert code_hash("code_lender.sar")
    assert "code_lender" not in sys.modules


def test_published_images_do_not_depend_on_the_code_that_draws_corruptions() -> None:
    for kind in ("imagenet_c", "cifar_c", "class_folders", "office_home", "file_list"):
        found = code._closure(f"tta_bench.datasets.{kind}", {"tta_bench"})
        assert f"tta_bench.datasets.{kind}" in found
        assert not {name for name in found if name.startswith("tta_bench.corruptions")}
    assert "tta_bench.corruptions._frost" in code._closure("tta_bench.datasets.digits", {"tta_bench"})


def test_the_code_that_every_method_runs_through_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that the runner imports is in the list, or clearly changes no result."""
    shapes_nothing = {*SHAPES_NOTHING, "tta_bench.measure.environment", "tta_bench.static_facts"}
    shapes_nothing |= {f"tta_bench.identity.{name}" for name in ("code", "syntax")}
    shapes_nothing |= {f"tta_bench.records.{name}" for name in ("cell", "conditions", "predictions", "record")}
    shapes_nothing |= {f"tta_bench.records.{name}" for name in ("plausible", "spec")}
    shapes_nothing |= {"tta_bench.isolation.start"}  # compares answers after everything was measured
    reached = code._closure("tta_bench.isolation.host", {"tta_bench"})
    rooms = {f"tta_bench.{room}" for room in ("data", "measure", "models", "streams")}  # hold a docstring
    # GPUs change where a cell is computed: their kind, precision and order of sums are in the key by themselves.
    simulated = {name for name in reached if name.startswith("tta_bench.simulated")} | {"tta_bench.gpus"}
    assert reached - shapes_nothing - {f"tta_bench.{name}" for name in HARNESS} - simulated <= rooms
    assert all(source_file(f"tta_bench.{name}") for name in HARNESS)
    assert all(map(source_file, shapes_nothing)), "a module that moved leaves no name behind"
    assert "data.cache" in HARNESS, "it supplies pixels"
    before = harness_hash()
    harness_hash.cache_clear()
    monkeypatch.setattr(code, "HARNESS", HARNESS[1:])
    assert harness_hash() != before
    harness_hash.cache_clear()


NOTEBOOK = """
from functools import wraps

def decorated(function):
    @wraps(function)
    def wrapper(*given):
        return function(*given)
    return wrapper

class Base:
    scale = 1.0

class Mine(Base):
    rate = 0.1

    @decorated
    def adapt(self, batch, power=2):
        return [x ** power for x in batch if x > 0.5]

    @property
    def limit(self):
        return 3
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("scale = 1.0", "scale = 2.0"), ("rate = 0.1", "rate = 0.2"), ("power=2", "power=3"), ("x >", "x <"), ("3", "4")],
)
def test_a_class_of_a_notebook_is_hashed_whole(old: str, new: str) -> None:
    def make(code: str) -> type:
        scope: dict[str, Any] = {"__name__": "a notebook"}
        exec(code, scope)
        mine: type = scope["Mine"]
        return mine

    changed = NOTEBOOK.replace(old, new)
    assert class_hash(make(NOTEBOOK)) == class_hash(make(NOTEBOOK)) != class_hash(make(changed))


def test_a_class_of_a_script_is_hashed_without_its_prose(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"

    def hashed(words: str, rate: float) -> str:
        script.write_text(
            "from tta_bench.identity.code import class_hash\n\n\n"
            f'class Mine:\n    """{words}"""\n\n    rate = {rate}  # {words}\n\n\nprint(class_hash(Mine))\n'
        )
        return subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout

    assert hashed("Old words.", 0.1) == hashed("New words.", 0.1) != hashed("New words.", 0.2)


def test_the_bases_of_a_class_of_a_script_count(tmp_path: Path) -> None:
    script, module = tmp_path / "mine.py", tmp_path / "bases_of_mine.py"

    def hashed(rate: float, scale: float) -> str:
        module.write_text(f"class Far:\n    scale = {scale}\n")
        script.write_text(
            "from bases_of_mine import Far\nfrom tta_bench.identity.code import class_hash\n\n\n"
            f"class Base(Far):\n    rate = {rate}\n\n\nclass Mine(Base):\n    pass\n\n\nprint(class_hash(Mine))\n"
        )
        words = [sys.executable, "-B", script]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    first = hashed(0.1, 1.0)
    assert hashed(0.1, 1.0) == first
    assert len({first, hashed(0.2, 1.0), hashed(0.1, 2.0)}) == 3


RELOADED = """
from tta_bench import Method
from base_of_reloaded import Base
class Mine(Base, Method):
    def adapt(self, batch):
        return self.model(batch) * {factor}
"""


@pytest.fixture
def reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of a user, who edits it beside a notebook."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "base_of_reloaded.py").write_text("class Base:\n    scale = 1\n")
    (tmp_path / "reloaded_method.py").write_text(RELOADED.format(factor=1))
    yield importlib.import_module("reloaded_method")
    registry.installed().given.clear()
    for name in ("reloaded_method", "base_of_reloaded"):
        sys.modules.pop(name)


def hash_of(cls: Any) -> str:
    registry.add("reloaded", cls)
    return registry.installed().code("reloaded")


def test_a_reloaded_class_is_hashed_again(reloaded: Any, tmp_path: Path) -> None:
    first, old = hash_of(reloaded.Mine), reloaded.Mine
    (tmp_path / "reloaded_method.py").write_text(RELOADED.format(factor=-1))
    assert hash_of(reloaded.Mine) == first, "without a reload, the old code runs"
    importlib.reload(reloaded)
    second = hash_of(reloaded.Mine)
    assert second != first
    with pytest.raises(UserError, match="reloaded_method was reloaded since: import Mine from it again"):
        hash_of(old)
    (tmp_path / "base_of_reloaded.py").write_text("class Base:\n    scale = 2\n")
    importlib.reload(sys.modules["base_of_reloaded"])
    importlib.reload(reloaded)
    assert hash_of(reloaded.Mine) not in (first, second), "a base from another module counts"
