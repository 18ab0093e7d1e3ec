"""Papers: published numbers, and the conditions under which measured ones may be compared with them."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from tta_bench.checked.parse import from_yaml
from tta_bench.checked.validate import read
from tta_bench.errors import UserError, did_you_mean
from tta_bench.files import read_whole

HOME = Path(__file__).parent
FILE = "paper.yaml"
AVERAGE = "average"  # the task of accuracy.csv that is the mean over the others

# By the paper's authors, from another paper, or not stated.
Provenance = Literal["reproduced", "cited", "published"]
PROVENANCES: tuple[Provenance, ...] = get_args(Provenance)


@dataclass(frozen=True)
class TableTerms:
    """What paper.yaml says about a table: who answers it, and its conditions. What is not stated is not checked."""

    suites: tuple[str, ...]
    about: str = ""
    model: str = ""
    batch_size: int | None = None
    scenario: str = "normal"
    scenario_settings: dict[str, float] = field(default_factory=dict)
    mean: tuple[float, ...] = ()  # with which images were normalised
    interpolation: str = ""  # with which images were resized
    rows: dict[str, str] = field(default_factory=dict)  # our label: the paper's row
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # by method, where they are not the suite's
    caveat: str = ""  # why no row of this table can be compared
    hardware: str = ""  # of a table of times
    images: int = 50_000  # that the minutes are for
    source_table: str = ""  # where the unadapted model's row is, if in another table
    source_above: str = ""  # what to suspect if the unadapted model scores higher than published
    source_below: str = ""  # and if it scores lower


@dataclass(frozen=True)
class MethodTerms:
    """How one of our methods relates to the paper."""

    row: str = ""  # the paper's name for it, if another
    score_point: str = ""  # when the paper scores it, if it says so
    caveat: str = ""  # why it cannot be compared; {score_point} is that of the measured row


@dataclass(frozen=True)
class Citation:
    """Rows that a paper took from elsewhere."""

    rows: tuple[str, ...]
    source: str
    note: str = ""


@dataclass(frozen=True)
class Terms:
    """The content of paper.yaml."""

    title: str
    tables: dict[str, TableTerms]
    venue: str = ""
    methods: dict[str, MethodTerms] = field(default_factory=dict)
    cited: tuple[Citation, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)  # what a setting is called on the axis of a figure


@dataclass(frozen=True)
class Published:
    """One entry of a paper's table, in percent."""

    accuracy: float
    std: float | None = None
    provenance: Provenance = "published"


@dataclass(frozen=True)
class PaperTable(TableTerms):
    """A table with its numbers."""

    name: str = ""
    accuracies: dict[tuple[str, str], Published] = field(default_factory=dict)  # by row and task
    minutes: dict[str, float] = field(default_factory=dict)  # by row

    @property
    def methods(self) -> list[str]:
        """The rows in the paper's order."""
        return list(dict.fromkeys([row for row, _ in self.accuracies] + list(self.minutes)))

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(task for _, task in self.accuracies if task != AVERAGE))


@dataclass(frozen=True)
class Paper:
    """One folder: what its YAML says, and its tables with their numbers."""

    name: str
    terms: Terms
    tables: dict[str, PaperTable]

    def tables_of(self, suites: Collection[str]) -> list[PaperTable]:
        """The tables that these suites answer together."""
        return [table for table in self.tables.values() if set(suites) <= set(table.suites)]

    def method(self, name: str) -> MethodTerms:
        return self.terms.methods.get(name, MethodTerms())

    def citation(self, row: str) -> str:
        """Where a cited row comes from, and what is known of it."""
        found = next((one for one in self.terms.cited if row in one.rows), None)
        if found is None:
            return "cited by the paper from other work"
        return f"cited from {found.source}" + (f": {found.note}" if found.note else "")


def names() -> list[str]:
    """The papers that ship with tta-bench."""
    return sorted(file.parent.name for file in HOME.glob(f"*/{FILE}"))


@cache
def load(name: str) -> Paper:
    """A paper by its name, or from a folder of one's own."""
    if name in names():
        return _read(HOME / name, name)
    if (Path(name) / FILE).is_file():
        return _read(Path(name), name)
    raise UserError(f"unknown paper '{name}'{did_you_mean(name, names())}: give one of these, or a folder with {FILE}")


def _read(folder: Path, name: str) -> Paper:
    where = f"{name}/{FILE}"
    terms = read(Terms, from_yaml(_text(folder / FILE), where), where)
    for key, table in terms.tables.items():
        if table.source_table and table.source_table not in terms.tables:
            hint = did_you_mean(table.source_table, terms.tables)
            raise UserError(f"{where}: tables: {key}: unknown source_table '{table.source_table}'{hint}")
    accuracies: dict[str, dict[tuple[str, str], Published]] = defaultdict(dict)
    for place, line in _lines(folder / "accuracy.csv", f"{name}/accuracy.csv", ("table", "method", "task"), terms):
        accuracies[line["table"]][line["method"], line["task"]] = _published(line, place)
    minutes: dict[str, dict[str, float]] = defaultdict(dict)
    for place, line in _lines(folder / "minutes.csv", f"{name}/minutes.csv", ("table", "method"), terms):
        minutes[line["table"]][line["method"]] = _number(line, "minutes", place)
    tables = {
        key: PaperTable(**vars(table), name=key, accuracies=accuracies[key], minutes=minutes[key])
        for key, table in terms.tables.items()
    }
    return Paper(name, terms, tables)


def _lines(file: Path, where: str, needs: Collection[str], terms: Terms) -> list[tuple[str, dict[str, str]]]:
    """The lines of a CSV file with their places; a paper need not have every file."""
    if not file.is_file():
        return []
    found = [(f"{where}, line {n}", line) for n, line in enumerate(csv.DictReader(_text(file).splitlines()), 2)]
    for place, line in found:
        if missing := [key for key in needs if not line.get(key)]:
            raise UserError(f"{place}: missing {', '.join(missing)}")
        if line["table"] not in terms.tables:
            raise UserError(f"{place}: unknown table '{line['table']}'{did_you_mean(line['table'], terms.tables)}")
    return found


def _published(line: Mapping[str, str], place: str) -> Published:
    stated = line.get("provenance") or "published"
    provenance = next((known for known in PROVENANCES if known == stated), None)
    if provenance is None:
        raise UserError(f"{place}: provenance: expected {' or '.join(PROVENANCES)}, got '{stated}'")
    std = _number(line, "std", place) if line.get("std") else None
    return Published(_number(line, "accuracy", place), std, provenance)


def _number(line: Mapping[str, str], key: str, place: str) -> float:
    try:
        return float(line[key])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{place}: {key}: expected a number, got '{line.get(key)}'") from None


def _text(file: Path) -> str:
    try:
        return read_whole(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}") from error
