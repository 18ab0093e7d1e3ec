"""The house rules that import-linter (pyproject.toml) cannot check: nothing is unregistered or undeclared."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from importlib import import_module, metadata
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tta_bench.papers import paper as papers

HEAVY = {
    "torch",
    "timm",
    "torchvision",
    "tta_bench.isolation.host",
    "tta_bench.runs.execute",
    "tta_bench.runs.bind",
    "tta_bench.method",
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_the_harness_knows_no_method_and_no_paper_by_name() -> None:
    """Neither in identifiers nor in strings. Comments and docstrings may cite; EXAMPLES is the text of --help."""
    common = {"source", "note", "come"}  # methods and papers with the name of a common word
    methods = {entry.name for entry in metadata.entry_points(group="tta_bench.methods")}
    published = {row for name in papers.names() for table in papers.load(name).tables.values() for row in table.methods}
    words = methods | set(papers.names()) | {row for row in published if re.fullmatch(r"[\w-]*[a-z][\w-]*", row)}
    words = {word for word in words if word.lower() not in common}
    named = re.compile(rf"(?i)(?<![a-z0-9])({'|'.join(map(re.escape, sorted(words)))})(?![a-z0-9])")
    assert named.search("if name == 'sar'")
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in sorted((ROOT / "tta_bench").rglob("*.py"))
        for text in code_words(ast.parse(path.read_text()))
        if named.search(text)
    ]
    assert found == []


def code_words(tree: ast.Module) -> Iterator[str]:
    """Every identifier and every string of a module that runs."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body[0] for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    silent = {id(first.value) for first in bodies if isinstance(first, ast.Expr)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "EXAMPLES" for t in node.targets):
            silent.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value
        for name in ("id", "attr", "arg", "name", "asname", "module"):
            if isinstance(found := getattr(node, name, None), str):
                yield found


def test_every_method_file_is_registered() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    registered = setup["options.entry_points"]["tta_bench.methods"]
    for path in (ROOT / "methods").glob("[!_]*.py"):
        assert f"tta_bench_methods.{path.stem}:" in registered, f"{path.name} has no entry point in setup.cfg"


def test_every_package_is_listed_in_setup_cfg() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = set(setup["options"]["packages"].split())
    there = {".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / "tta_bench").rglob("__init__.py")}
    assert listed == there | {"tta_bench_methods"}


def test_every_dependency_is_declared_and_every_declared_one_is_used() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = [lines for name, lines in setup["options.extras_require"].items() if name not in ("dev", "docs")]
    declared = " ".join([setup["options"]["install_requires"], *extras])
    names = {re.split("[<>=]", line)[0] for line in declared.split()}
    called = {"PIL": "pillow", "mlflow": "mlflow-skinny", "sklearn": "scikit-learn", "yaml": "pyyaml"}
    paths = [*(ROOT / "tta_bench").rglob("*.py"), *(ROOT / "methods").glob("*.py")]
    used = {name.partition(".")[0] for path in paths for name in imports(path)} - sys.stdlib_module_names
    through = {"pyarrow", "torchvision"}  # pandas imports the first, timm the second
    holds_weights = set(setup["options.extras_require"]["photographs"].split()) - {"onnx>=1.16"}  # read, not imported
    through |= {re.split("[<>=]", name)[0] for name in holds_weights}
    assert {called.get(name, name) for name in used - {"tta_bench"}} | through == names


@pytest.mark.parametrize(
    "statement",
    [
        "import tta_bench.report.write",
        "import tta_bench.report.differences, tta_bench.report.page",
        "from tta_bench.static_facts import published_settings; assert published_settings('sar')",
        "import tta_bench.cli.main; tta_bench.cli.main.parser()",
        "from tta_bench.suites import suite; assert suite.names()",
        "from tta_bench.models import packaged; assert packaged.describe('digits-vit').num_classes == 10",
        "from tta_bench.models import names; names.stamp('hf_hub:a/b'); names.stamp('tv:resnet50')",
        "from tta_bench.models import names; names.stamp('robustbench:Standard=x.pt'); names.stamp('local-dir:x')",
        "from tta_bench.datasets import kind, kinds; assert [kind(name) for name in kinds().names()]",
    ],
)
def test_reports_and_help_do_without_torch(statement: str) -> None:
    code = f"import sys; {statement}; print(*(m for m in {sorted(HEAVY)} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_files_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:tta_bench|methods|tests|results|docs)/[^`<>]*)`", text)
    assert len(named) > 20
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []


BENCHMARKS = sorted(path.relative_to(ROOT) for path in (ROOT / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=str)
def test_names_that_a_benchmark_imports_exist(path: Path) -> None:
    """Most of them run seldom, so that a renamed function would go unnoticed."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("tests", "tta_bench"):
            module = import_module(node.module)
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            for name in missing:
                import_module(f"{node.module}.{name}")
