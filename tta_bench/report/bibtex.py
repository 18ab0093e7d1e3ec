"""BibTeX entries of what a record names: its method, its data and its model state them. Imports none of these.

A `bibtex` text in a method's or dataset's class, in a model's module or in a suite's file holds entries. So a plug-in
brings its own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from tta_bench import plugins, static_facts
from tta_bench.records.cell import Cell
from tta_bench.suites import suite as suites

HARNESS = "tta_bench"  # the key of our own entry
TIMM = ("tta_bench.models.weights", "")  # the module that loads a name of timm
START = re.compile(r"^\s*@\w+\s*\{\s*([^\s,{}]+)\s*,", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One BibTeX entry."""

    key: str
    text: str


def entries(text: str) -> list[Entry]:
    """The entries of a BibTeX text."""
    starts = list(START.finditer(text))
    parts = zip(starts, [*(start.start() for start in starts[1:]), len(text)], strict=False)
    return [Entry(start[1], _indented(text[start.start() : end])) for start, end in parts]


def _indented(text: str) -> str:
    """An entry without the indentation of its class."""
    head, _, body = text.strip().partition("\n")
    return f"{head}\n{textwrap.dedent(body)}".strip() if body else head


def of_harness(version: str) -> list[Entry]:
    """The harness, in the version that made a record."""
    text = f"""@software{{{HARNESS},
    title = {{tta-bench: a fair benchmark harness for test-time adaptation}},
    author = {{{{The tta-bench authors}}}},
    version = {{{version}}},
}}"""
    return entries(text)


def of_method(name: str) -> list[Entry]:
    """A method's papers, and those of the methods that it builds on."""
    return _stated("method", name)


def of_data(cell: Cell) -> list[Entry]:
    """The papers of a cell's kind of data, and those that its suite adds."""
    library = suites.library().claims.get(cell.spec.suite, {})
    added = [entry for suite in library.values() for entry in entries(suite.bibtex)]
    return _once([*added, *_stated("dataset", str(cell.spec.data.get("kind")))])


def of_model(name: str) -> list[Entry]:
    """The papers of a model's package; none for weights of one's own."""
    prefix = name.partition(":")[0]
    if prefix in plugins.group("model").claims:
        return _stated("model", prefix)
    return [] if name.endswith(".safetensors") else _entries(*TIMM)


def is_included(model: str) -> bool:
    """Whether a model's weights ship with tta-bench."""
    return plugins.group("model").owner(model) == plugins.OWN


def _stated(noun: str, name: str) -> list[Entry]:
    entry = next(iter(plugins.group(noun).claims.get(name, ())), None)
    return _entries(entry.module, entry.attr) if entry else []


def _entries(module: str, name: str) -> list[Entry]:
    texts = static_facts.stated(module, name, "bibtex")
    return _once(entry for text in texts if isinstance(text, str) for entry in entries(text))


def _once(found: Iterable[Entry]) -> list[Entry]:
    return list({entry.key: entry for entry in found}.values())
