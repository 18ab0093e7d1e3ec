"""Whether the tables in a run's report folder are those that its records give, and the rows with their intervals."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from tta_bench.errors import UserError
from tta_bench.files import read_whole
from tta_bench.packed.places import Place
from tta_bench.records.store import Store
from tta_bench.report import choose, differences, leaderboard
from tta_bench.report.orders import orders_table
from tta_bench.report.page.data import gather
from tta_bench.report.render import csv_text
from tta_bench.report.rows import Comparison, by_table, compare
from tta_bench.report.runs import Runs
from tta_bench.report.stress import class_table, stress_table
from tta_bench.report.tables import accuracy_table, layout, time_table
from tta_bench.report.values import Table, Value
from tta_bench.verify.findings import Audit

MOST = 2**25  # bytes of a table
LIKELY = "make it again with `tta-bench report`, or it was made with another --where or version"


def check(store: Store, audit: Audit) -> None:
    """Compare report/*.csv and report/*/*.csv with what the records give now."""
    home = store.folder / "report"
    if home.is_symlink():
        audit.fails("tables", str(home), "is a symbolic link")
        return
    paths = sorted([*home.glob("*.csv"), *home.glob("*/*.csv")])
    if not paths:
        return
    try:
        runs = Runs([store.folder])
        made = list(_comparisons(runs))
    except UserError as error:
        for path in paths:
            audit.unknown("tables", str(path), f"no table can be made: {error}")
        return
    names = {path.name for path in paths}
    given = [_texts(one, runs, names) for one in made]
    texts = {name: {one[name] for one in given if name in one} for name in names}
    for path in paths:
        try:
            content = read_whole(path, MOST).decode()
            is_same = content in texts[path.name] or _is_difference(path, content, made, runs)
        except (OSError, UserError, UnicodeDecodeError) as error:
            audit.fails("tables", str(path), f"cannot be read ({error})")
            continue
        if is_same:
            audit.holds("tables", str(path))
        elif texts[path.name] or path.name == "compare.csv":
            audit.fails("tables", str(path), f"is not what the records give: {LIKELY}")
        else:
            audit.unknown("tables", str(path), "no table of tta-bench has this name")


def intervals(folders: Sequence[Place]) -> list[Table]:
    """Each row's average with its 95 % interval, recomputed from predictions."""
    runs = Runs(folders)
    return [_intervals(comparison, runs) for comparison in choose.comparisons(runs.records)]


def _intervals(comparison: Comparison, runs: Runs) -> Table:
    lines = gather(comparison, accuracy_table(comparison), time_table(comparison), runs.outline)
    rows = []
    for line in lines:
        low, high = line.intervals[-1] or (math.nan, math.nan)
        rows.append((line.row.label, (line.scores[-1], Value(low), Value(high))))
    return Table(f"{comparison.suite}: average accuracy (%), recomputed", ("Avg.", "95 % low", "high"), tuple(rows))


def _comparisons(runs: Runs) -> Iterator[Comparison]:
    """What `report` shows by default, and every group that --where can choose."""
    yield from choose.comparisons(runs.records)
    for records in by_table(runs.records).values():
        for group in choose.groups(records):
            yield compare(group.records)


def _texts(comparison: Comparison, runs: Runs, names: Set[str]) -> dict[str, str]:
    """The content of tables by file name; those of --stress and --orders only where a file has their name."""
    tables = layout(comparison)
    if "orders.csv" in names:
        tables["orders"] = orders_table(comparison)
    if "stress.csv" in names:
        tables |= {"stress": stress_table(comparison, runs), "classes": class_table(comparison, runs)}
    texts = {f"{name}.csv": csv_text(table) for name, table in tables.items()}
    return {**texts, "leaderboard.csv": leaderboard.tidy_csv(comparison)}


def _is_difference(path: Path, content: str, made: Sequence[Comparison], runs: Runs) -> bool:
    """Whether a compare.csv is what `compare` gives for the two rows that its head names."""
    head = next(csv.reader(content.splitlines()), [])
    if path.name != "compare.csv" or len(head) < 3:
        return False
    for comparison in made:
        try:
            found = differences.difference(comparison, head[1], head[2], runs)
        except UserError:
            continue
        if csv_text(differences.table(found, comparison.suite)) == content:
            return True
    return False
