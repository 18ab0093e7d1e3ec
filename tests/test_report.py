"""Tables are right, fair, and say what is missing."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.records import make_failure, make_record
from tta_bench.errors import UnmatchedStreams, UserError
from tta_bench.record import Record
from tta_bench.report import render
from tta_bench.report.rows import compare
from tta_bench.report.tables import Table, accuracy_table, time_table
from tta_bench.report.write import report


def entry(table: Table, label: str, column: str) -> str:
    return str(dict(table.rows)[label][table.columns.index(column)])


def two_methods() -> list[Record]:
    return [
        make_record("source", 0.40, task="fog", ms=1),
        make_record("source", 0.60, task="snow", ms=1),
        make_record("sar", 0.50, task="fog", ms=3),
        make_record("sar", 0.58, task="snow", ms=3),
    ]


def test_accuracy_is_percent_with_an_average() -> None:
    table = accuracy_table(compare(two_methods()))
    assert table.columns == ("fg", "snw", "Avg.", "scored")
    assert [entry(table, "source", c) for c in table.columns] == ["40.0", "60.0", "50.0", "pre-update"]
    assert entry(table, "sar", "Avg.") == "54.0"


def test_the_best_of_each_column_is_bold() -> None:
    text = render.markdown(accuracy_table(compare(two_methods())))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert rows[2] == ["source", "40.0", "**60.0**", "50.0", "pre-update"]
    assert rows[3] == ["sar", "**50.0**", "58.0", "**54.0**", "pre-update"]


def test_what_prints_equal_is_equally_best() -> None:
    table = accuracy_table(compare([make_record("a", 0.50001), make_record("b", 0.50004)]))
    assert all(values[0].best for _, values in table.rows)


def test_seeds_give_mean_and_sample_deviation() -> None:
    records = [make_record("sar", top1, seed=seed) for seed, top1 in enumerate((0.5, 0.6, 0.7))]
    table = accuracy_table(compare(records))
    assert entry(table, "sar", "fg") == "60.0 ±10.0"
    assert "Mean ± standard deviation over seeds 0, 1, 2." in table.notes


def test_a_seed_setting_that_follows_the_cell_does_not_split_the_row() -> None:
    records = [make_record("dpal", seed=seed, settings={"seed": seed, "lr": 0.1}) for seed in (0, 1)]
    assert [row.label for row in compare(records).rows] == ["dpal"]


def test_the_time_table() -> None:
    table = time_table(compare(two_methods()))
    assert entry(table, "sar", "seconds") == "1.1"  # two tasks of 9 x 30 ms + 300 ms
    assert entry(table, "sar", "ms/image") == "3.00"  # the first batch is left out
    assert entry(table, "sar", "× Source") == "3.00"
    assert entry(table, "sar", "forwards/image") == "1.00"
    assert entry(table, "sar", "backwards/image") == "0.50"
    assert entry(table, "sar", "peak MiB") == "1024"
    assert "Measured on chip, 2 threads." in table.notes


def test_without_source_there_is_no_ratio() -> None:
    assert entry(time_table(compare([make_record("sar")])), "sar", "× Source") == "–"


def test_different_orders_never_share_a_table() -> None:
    records = [make_record("sar"), make_record("dpal", stream="other order")]
    with pytest.raises(
        UnmatchedStreams, match=r"fog, seed 0: .*sar \(order of fog.*dpal \(other order\).*run them again"
    ):
        compare(records)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": "x"}, "source weights differs .*sar: m w; dpal: m x"),
        ({"batch_size": 5}, "batch size differs .*sar: 10; dpal: 5"),
        ({"suite": "t"}, "suite differs"),
    ],
)
def test_what_is_not_comparable_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        compare([make_record("sar"), make_record("dpal", **change)])


def test_parts_of_streams_are_left_out_or_marked() -> None:
    part, whole = make_record("sar", limit=64), make_record("sar")
    both = compare([part, whole])
    assert [row.records for row in both.rows] == [(whole,)]
    assert "1 records made with --limit are left out." in both.notes
    assert any(note.startswith("NOT REPORTABLE") for note in compare([part]).notes)


def test_old_code_gives_way_to_new() -> None:
    old, new = make_record("sar", 0.1, method_code="old"), make_record("sar", 0.2, method_code="new")
    comparison = compare([old, new])
    assert [row.first.top1 for row in comparison.rows] == [0.2]
    assert any("older records" in note for note in comparison.notes)


def test_rows_of_one_method_show_where_they_differ() -> None:
    records = [make_record("sar", settings={"lr": lr, "rho": 0.05}) for lr in (0.001, 0.01)]
    assert [row.label for row in compare(records).rows] == ["sar (lr=0.001)", "sar (lr=0.01)"]


def test_failed_cells_show_as_failed() -> None:
    records = [
        make_record("sar"),
        make_record("sar", task="snow"),
        make_failure("dpal", "it broke"),
        make_record("dpal", task="snow"),
    ]
    table = accuracy_table(compare(records))
    assert entry(table, "dpal", "fg") == "failed"
    assert entry(table, "dpal", "Avg.") == "–"
    assert "FAILED dpal on fog, seed 0: it broke" in table.notes


def test_a_method_that_failed_everywhere_still_has_its_row() -> None:
    comparison = compare([make_record("source"), make_failure("dpal", "it broke")])
    assert entry(time_table(comparison), "dpal", "seconds") == "failed"


def test_csv_is_plain_numbers() -> None:
    records = [make_record("sar", top1, seed=seed) for seed, top1 in enumerate((0.5, 0.6))]
    (row,) = csv.DictReader(io.StringIO(render.csv_text(accuracy_table(compare(records)))))
    assert (row["fg"], row["fg std"], row["Avg."]) == ("55.00", "7.07", "55.00")


def test_a_narrow_screen_turns_the_table() -> None:
    tasks = [f"task{i}" for i in range(15)]
    records = [make_record(m, task=t) for m in ("source", "sar") for t in tasks]
    console = Console(width=60, record=True, file=io.StringIO())
    render.show(accuracy_table(compare(records)), console)
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["task14", "50.0", "50.0"] in lines


def test_markup_in_names_is_text(tmp_path: Path) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    report([make_record("[red]x"), make_failure("a|b", "[bold]why")], tmp_path, console)
    assert "[red]x" in console.export_text(clear=False)
    assert "[bold]why" in console.export_text()
    assert "a\\|b" in (tmp_path / "report.md").read_text()


def test_nothing_to_report() -> None:
    with pytest.raises(UserError, match="no records to report"):
        compare([])
