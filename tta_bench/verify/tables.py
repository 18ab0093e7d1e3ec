"""Whether the tables in a run's report folder are those that its records give, and the rows with their intervals."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.files import read_whole
from tta_bench.packed.address import Address
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report import choose, differences, leaderboard
from tta_bench.report.columns import columns_at
from tta_bench.report.metrics import metrics, with_metrics
from tta_bench.report.page.data import gather
from tta_bench.report.render import csv_text
from tta_bench.report.rows import Comparison, by_table, compare
from tta_bench.report.runs import Runs
from tta_bench.report.stress import class_table
from tta_bench.report.tables import accuracy_table, layout, orders_table, streams_table, stress_table
from tta_bench.report.values import Table, Value
from tta_bench.verify.findings import Audit

MOST = 2**25  # bytes of a table
LIKELY = "make it again with `tta-bench report`, or it was made with another --where or version"
STALE = "right for some of the records, before others were added: `tta-bench report` makes it again with all of them"
LISTED = ("method", "settings", "task", "seed", "stream")  # columns of leaderboard.csv that name a record


def check(store: Store, audit: Audit) -> None:
    """Compare report/*.csv and report/*/*.csv with what the records give now, or gave before others were added."""
    home = store.folder / "report"
    if home.is_symlink():
        audit.fails("tables", str(home), "is a symbolic link")
        return
    paths = sorted([*home.glob("*.csv"), *home.glob("*/*.csv")])
    if not paths:
        return
    names = {path.name for path in paths}
    try:
        runs = Runs([store.folder])
        lines = {folder: _leaderboard(folder) for folder in {path.parent for path in paths}}
        now = {folder: Tables(runs, runs.records, names, own) for folder, own in lines.items()}
        before = {folder: Tables(runs, _listed(own, runs.records), names, own) for folder, own in lines.items()}
    except UserError as error:
        for path in paths:
            audit.unknown("tables", str(path), f"no table can be made: {error}")
        return
    for path in paths:
        try:
            content = read_whole(path, MOST).decode()
        except (OSError, UserError, UnicodeDecodeError) as error:
            audit.fails("tables", str(path), f"cannot be read ({error})")
            continue
        if now[path.parent].has(path.name, content):
            audit.holds("tables", str(path))
        elif before[path.parent].has(path.name, content):
            audit.stale("tables", str(path), STALE)
        elif missing := now[path.parent].missing:
            audit.unknown("tables", str(path), f"metrics that are not installed here: {', '.join(missing)}")
        elif path.name in now[path.parent].known:
            audit.fails("tables", str(path), f"is not what the records give: {LIKELY}")
        else:
            audit.unknown("tables", str(path), "no table of tta-bench has this name")


class Tables:
    """The tables that records give, as `report` writes them: what it shows by default, and every other group.

    `lines` are those of a leaderboard.csv, whose head names the metrics that were asked for.
    """

    def __init__(self, runs: Runs, records: Sequence[Record], names: Set[str], lines: Lines) -> None:
        self._runs, self._records, self._names = runs, records, names
        known = {column.key for column in columns_at("csv")}
        asked = [key for key in (lines[0] if lines else ()) if key and key not in known]
        self.missing = [name for name in asked if name not in metrics().names()]
        self._metrics = [name for name in asked if name not in self.missing]

    @cached_property
    def _comparisons(self) -> list[Comparison]:
        groups = [group for those in by_table(self._records).values() for group in choose.groups(those)]
        default = choose.comparisons(self._records) if self._records else []
        made = [*default, *(compare(group.records) for group in groups)]
        return [with_metrics(one, self._runs, self._metrics) for one in made]

    @cached_property
    def _texts(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for comparison in self._comparisons:
            for name, text in _texts(comparison, self._runs, self._names).items():
                found[name].add(text)
        return found

    @property
    def known(self) -> set[str]:
        return {*self._texts, "compare.csv"}

    def has(self, name: str, content: str) -> bool:
        """Whether a file has the content of one of these tables; `run` orders rows and tasks by its own command."""
        same = any(_unordered(content) == _unordered(text) for text in self._texts.get(name, ()))
        return same or (name == "compare.csv" and self._has_difference(content))

    def _has_difference(self, content: str) -> bool:
        """Whether a compare.csv is what `compare` gives for the two rows that its head names."""
        head = next(csv.reader(content.splitlines()), [])
        for comparison in self._comparisons if len(head) > 2 else ():
            try:
                found = differences.difference(comparison, head[1], head[2], self._runs)
            except UserError:
                continue
            if csv_text(differences.table(found, comparison.suite)) == content:
                return True
        return False


def _unordered(text: str) -> list[list[tuple[str, str]]]:
    """The rows of a table in one order, and the entries of each under their heads: both name what they are about."""
    try:
        head, *rows = list(csv.reader(text.splitlines())) or [[]]
    except csv.Error:
        return [[("", text)]]
    return sorted(sorted(zip_longest(head, row, fillvalue="")) for row in [head, *rows])


Lines = Sequence[Mapping[str, str]]


def _leaderboard(folder: Path) -> Lines:
    """The lines of a folder's leaderboard.csv."""
    try:
        return list(csv.DictReader(read_whole(folder / "leaderboard.csv", MOST).decode().splitlines()))
    except (OSError, UserError, UnicodeDecodeError, csv.Error):
        return []


def _listed(lines: Lines, records: Sequence[Record]) -> list[Record]:
    """The records that a leaderboard.csv lists: the tables beside it were made of these."""
    listed = {tuple(line.get(name) for name in LISTED) for line in lines}
    return [record for record in records if all(_name(record, task) in listed for task in record.cell.spec.tasks)]


def _name(record: Record, task: str) -> tuple[str, ...]:
    cell = record.cell
    return cell.spec.method, json.dumps(cell.own_settings, sort_keys=True), task, str(cell.spec.seed), cell.found.stream


def intervals(folders: Sequence[Address]) -> list[Table]:
    """Each row's average with its 95 % interval, recomputed from predictions."""
    runs = Runs(folders)
    return [_intervals(comparison, runs) for comparison in choose.comparisons(runs.records)]


def _intervals(comparison: Comparison, runs: Runs) -> Table:
    lines = gather(comparison, accuracy_table(comparison), runs.outline)
    rows = []
    for line in lines:
        low, high = line.intervals[-1] or (math.nan, math.nan)
        rows.append((line.row.label, (line.scores[-1], Value(low), Value(high))))
    return Table(f"{comparison.suite}: average accuracy (%), recomputed", ("Avg.", "95 % low", "high"), tuple(rows))


def _texts(comparison: Comparison, runs: Runs, names: Set[str]) -> dict[str, str]:
    """The content of tables by file name; for --stress, --orders and composed streams only if such a file exists."""
    tables = layout(comparison)
    if "streams.csv" in names:
        tables |= streams_table(comparison, runs)
    if "orders.csv" in names:
        tables["orders"] = orders_table(comparison)
    if "stress.csv" in names:
        tables |= {"stress": stress_table(comparison, runs), "classes": class_table(comparison, runs)}
    texts = {f"{name}.csv": csv_text(table) for name, table in tables.items()}
    return {**texts, "leaderboard.csv": leaderboard.tidy_csv(comparison)}
