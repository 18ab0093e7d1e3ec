"""LaTeX tables compile as they are, whatever the names."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.records import make_failure, make_record
from tta_bench.notes import info
from tta_bench.report import latex
from tta_bench.report.rows import compare
from tta_bench.report.tables import layout
from tta_bench.report.values import Table, Value

NAMES = [
    "<script>",
    "a|b",
    "\\input{x}",
    "[red]",
    "*star",
    "50% & $x_1^2$ #~{}",
    "na\u00efve--''\"``,, ?` \u00d0 \u4e2d",
    "\u2248 \u2026 \u2192 \u00d7\u00f7\u00b1\u2212",
    "}\\end{tabular}",
    "\u03b2tent \u26a0",
]


def write_all(folder: Path) -> None:
    tasks = ("fog", "Art-to-Clipart", "a_b")
    records = [make_record(name, task=task, seed=seed) for name in NAMES for task in tasks for seed in (0, 1)]
    records += [make_failure("x\\y", "why\n {not} %")]
    for name, text in latex.files(layout(compare(records)), "s_{1}").items():
        (folder / name).write_text(text)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here (apt install texlive-latex-recommended)")
def test_pdflatex_takes_the_document(tmp_path: Path) -> None:
    write_all(tmp_path)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "report.pdf").stat().st_size > 10_000


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here (apt install texlive-latex-recommended)")
@pytest.mark.parametrize("name", ["accuracy", "time"])
def test_pdflatex_takes_a_fragment_in_a_paper(tmp_path: Path, name: str) -> None:
    write_all(tmp_path)
    packages = "".join(f"\\usepackage{{{package}}}" for package in latex.PACKAGES)
    paper = rf"\documentclass[twocolumn]{{article}}{packages}\begin{{document}}\input{{{name}}}\end{{document}}"
    (tmp_path / "paper.tex").write_text(paper)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_nothing_special_is_left(name: str) -> None:
    text = latex.escape(name)
    for command in (r"\textbackslash{}", r"\textasciicircum{}", r"\textasciitilde{}", r"{\char36}"):
        text = text.replace(command, "")
    text = re.sub(r"\\(textless|textgreater|textbar|ldots)\{\}|\$(\\[a-z]+|-)\$|\\[{}&#%_]", "", text)
    assert not re.search(r"[\\$&#%_^~<>|]", text)
    assert text.count("{") == text.count("}")


def test_code_in_a_note_is_set_as_code() -> None:
    text = latex.fragment(Table("t", ("a",), (), (info("inside `adapt_it` only"),)), "t")
    assert r"inside \texttt{adapt\_it} only" in text


def test_numbers_are_set_as_papers_set_them() -> None:
    row = (Value(50, 0.5, best=True), Value(-1.25, digits=2, signed=True), Value(word="-a"))
    text = latex.fragment(Table("t", ("a", "b", "c"), (("sar", row),)), "t")
    assert r"sar & \textbf{50.0$_{\pm 0.5}$} & $-$1.25 & -a \\" in text


def test_differences_end_a_group() -> None:
    less = (Value(1, signed=True), Value(word="yes"))
    text = latex.fragment(Table("t", ("a", "b"), (("x", less), ("y", (Value(1), Value(word="yes"))))), "t")
    assert text.count(r"\\ \addlinespace") == 1


def test_a_table_has_rules_bold_and_a_label(tmp_path: Path) -> None:
    tables = layout(compare([make_record("sar", 0.6), make_record("tent", 0.5)]))
    text = latex.fragment(tables["accuracy"], "s-accuracy")
    for part in (r"\toprule", r"\midrule", r"\bottomrule", r"\textbf{60.0}", r"\label{tab:s-accuracy}"):
        assert part in text
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    assert {line.count("&") for line in body.splitlines() if line.endswith(r"\\")} == {6}


def test_only_complete_rows_are_bold() -> None:
    records = [make_record("whole", 0.5, task=task) for task in ("fog", "snow")]
    text = latex.fragment(layout(compare([*records, make_record("half", 0.9, task="fog")]))["accuracy"], "t")
    half, whole = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("half", "whole"))
    assert (half.count("textbf"), whole.count("textbf")) == (0, 3), "fog, snow and their average"
