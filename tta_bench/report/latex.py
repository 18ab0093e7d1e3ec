"""Tables for a paper: LaTeX with booktabs, one float per table, and a document that compiles as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tta_bench.errors import clean
from tta_bench.notes import Note
from tta_bench.report.values import FAILED, MISSING, Table, TableRow, Value

WIDE = 10  # with more columns, they move closer together
PACKAGES = ("booktabs", "graphicx")

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"{\char36}",  # \$ takes a font that small installations lack
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": "{`}",
    "[": "{[}",  # bare after \\ it would start an option, as would a star
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "→": r"$\rightarrow$",
    "≈": r"$\approx$",
    "…": r"\ldots{}",
    "⚠": r"$\triangle$!",
}


def escape(text: str) -> str:
    """Text that LaTeX prints literally; letters that pdflatex lacks are printed as their code point."""
    return _escaped(clean(text))


def _escaped(plain: str) -> str:
    pieces = [_SPECIAL.get(char) or (char if _known(char) else f"{{[}}U+{ord(char):04X}{{]}}") for char in plain]
    twins = [left == right and left in "-'," for left, right in zip(" " + plain, plain, strict=False)]
    return "".join("{}" * twin + piece for twin, piece in zip(twins, pieces, strict=True))  # else -- is a dash


def _known(char: str) -> bool:
    """Whether pdflatex can print a letter in its default font encoding (OT1), which many preambles keep."""
    return char.isascii() or ("À" <= char <= "ÿ" and char not in "ÐÞðþ")


def fragment(table: Table, name: str) -> str:
    r"""A table to \input into a paper; wider than the line, it shrinks to fit."""
    head = " & ".join(escape(column) for column in (table.head, *table.columns))
    rows = [
        " & ".join([escape(label), *map(_entry, values)]) + r" \\" + _gap(values)
        for label, values in _best_of_complete(table.rows)
    ]
    lines = [
        "% made by tta-bench report; needs " + " ".join(rf"\usepackage{{{package}}}" for package in PACKAGES),
        r"\begin{table}[htbp]",
        r"\centering",
        *([r"\setlength{\tabcolsep}{3pt}"] if len(table.columns) > WIDE else []),
        rf"\caption{{{escape(table.title)}}}",
        rf"\label{{tab:{_key(name)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        r"\begin{tabular}{l" + "".join("r" for _ in table.columns) + "}",
        r"\toprule",
        head + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}}",
        *_notes(table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def document(names: Iterable[str], title: str) -> str:
    """A whole document that inputs these fragments, to preview them."""
    lines = [
        r"\documentclass{article}",
        r"\usepackage[margin=15mm,landscape]{geometry}",
        r"\usepackage[utf8]{inputenc}",
        *(rf"\usepackage{{{package}}}" for package in PACKAGES),
        r"\begin{document}",
        rf"\section*{{{escape(title)}}}",
        *(rf"\input{{{name}.tex}}" for name in names),
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def files(tables: Mapping[str, Table], title: str) -> dict[str, str]:
    """All that `--format latex` writes: a fragment per table, and report.tex around them."""
    fragments = {f"{name}.tex": fragment(table, f"{title}-{name}") for name, table in tables.items()}
    return {**fragments, "report.tex": document(tables, title)}


def _best_of_complete(rows: Sequence[TableRow]) -> Sequence[TableRow]:
    """Rows with the best of each column marked among complete rows: a paper's table compares only those."""
    whole = [not any(value.word in (MISSING, FAILED) for value in values) for _, values in rows]
    if all(whole) or not any(whole):
        return rows
    marked = {i for _, values in rows for i, value in enumerate(values) if value.best}
    tops = {
        i: max(values[i].rank for (_, values), complete in zip(rows, whole, strict=True) if complete) for i in marked
    }
    return [
        (
            label,
            tuple(
                replace(value, best=complete and value.rank == tops[i]) if i in marked else value
                for i, value in enumerate(values)
            ),
        )
        for (label, values), complete in zip(rows, whole, strict=True)
    ]


def _entry(value: Value) -> str:
    text = escape(str(replace(value, std=None)))
    if value.signed and text.startswith("-"):
        text = f"$-${text[1:]}"
    if value.std is not None and not value.word:
        text += rf"$_{{\pm {value.std:.{value.digits}f}}}$"  # as papers set it, for the table's width
    return rf"\textbf{{{text}}}" if value.best else text


def _gap(values: Sequence[Value]) -> str:
    """Some space after a line of differences, which ends a group."""
    return r" \addlinespace" if len(values) > 1 and all(value.signed for value in values[:-1]) else ""


def _notes(notes: Iterable[Note]) -> list[str]:
    lines = [rf"\par\noindent {_prose(str(note))}" for note in notes]
    return [r"\begin{minipage}{\linewidth}\vspace{1ex}\footnotesize", *lines, r"\end{minipage}"] if lines else []


def _prose(note: str) -> str:
    """A note: `so` is code, all else is text."""
    pieces = re.split("`([^`]+)`", clean(note))
    return "".join(rf"\texttt{{{_escaped(piece)}}}" if i % 2 else _escaped(piece) for i, piece in enumerate(pieces))


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
