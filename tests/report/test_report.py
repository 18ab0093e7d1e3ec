"""Tables are right, fair, and say what is missing."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.records import changed, keep, make_failure, make_record
from tta_bench.errors import UserError, clean
from tta_bench.notes import info
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report import names, render
from tta_bench.report.choose import comparison
from tta_bench.report.rows import compare
from tta_bench.report.runs import Runs
from tta_bench.report.tables import Table, accuracy_table, layout, time_table


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
    assert table.columns == ("fg", "snw", "Avg.", "scored", "fwd", "bwd", "src")
    shown = [entry(table, "source", c) for c in table.columns]
    assert shown == ["40.0", "60.0", "50.0", "pre-update", "1.00", "0.50", "no"]
    assert entry(table, "sar", "Avg.") == "54.0"


def test_the_best_of_each_column_is_bold() -> None:
    text = render.markdown(accuracy_table(compare(two_methods())))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert rows[2][:5] == ["source", "40.0", "**60.0**", "50.0", "pre-update"]
    assert rows[3][:5] == ["sar", "**50.0**", "58.0", "**54.0**", "pre-update"]


def test_what_prints_equal_is_equally_best() -> None:
    table = accuracy_table(compare([make_record("a", 0.50001), make_record("b", 0.50004)]))
    assert all(values[0].best for _, values in table.rows)


def test_seeds_give_mean_and_sample_deviation() -> None:
    records = [make_record("sar", top1, seed=seed) for seed, top1 in enumerate((0.5, 0.6, 0.7))]
    table = accuracy_table(compare(records))
    assert entry(table, "sar", "fg") == "60.0 ±10.0"
    assert "Mean ± standard deviation over seeds 0, 1, 2." in map(str, table.notes)


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
    assert "Measured on chip, 2 threads." in map(str, table.notes)


def test_times_are_separated_by_torch_version() -> None:
    def on(torch: str, record: Record) -> Record:
        return changed(record, environment={**record.measured.environment, "packages": {"torch": torch}})

    source, sar = make_record("source"), make_record("sar", ms=3)
    same = [*map(str, time_table(compare([on("2.15.0", source), on("2.15.0", sar)])).notes)]
    assert "Measured on chip, 2 threads." in same
    assert not any(note.startswith("Left out") for note in same)
    later = time_table(compare([on("2.15.0", source), on("2.16.0", sar)]))
    assert "Measured on chip, 2 threads." in map(str, later.notes)
    note = "Left out of times, 1 cell measured on chip, 2 threads, torch 2.16.0: sar on fog, seed 0."
    assert note in map(str, later.notes)
    assert entry(later, "sar", "seconds") == entry(later, "sar", "× Source") == "–"
    assert entry(later, "sar", "forwards/image") == "1.00", "counts do not depend on the machine"


def test_times_of_a_shared_device_are_left_out_where_others_are_not() -> None:
    source, alone, fast = make_record("source"), make_record("sar", ms=3), make_record("sar", ms=30, task="snow")
    shared = changed(fast, environment={**fast.measured.environment, "shared": True})
    table = time_table(compare([source, alone, shared]))
    assert "Left out of times, 1 cell measured on chip, 2 threads, shared with other jobs: sar on snow, seed 0." in map(
        str, table.notes
    )
    assert entry(table, "sar", "× Source") == "3.00"
    assert entry(table, "sar", "seconds") == "–", "one stream's seconds are not those of both"
    assert "Measured on chip, 2 threads, shared with other jobs." in map(str, time_table(compare([shared])).notes)


def test_without_source_there_is_no_ratio() -> None:
    assert entry(time_table(compare([make_record("sar")])), "sar", "× Source") == "–"


def test_source_of_another_folder_is_the_unit_of_every_row(tmp_path: Path) -> None:
    records = {
        "one": [make_record("source", ms=2, seed=0), make_record("sar", ms=6, seed=0)],
        "two": [make_record("tent", ms=4, seed=seed) for seed in (0, 1)],
        "three": [make_record("dpal", ms=8, task="snow", seed=2), make_failure("sar", "why", task="snow")],
    }
    for name, those in records.items():
        store = Store.create(tmp_path / name, "s")
        for record in those:
            keep(store, record)
    table = time_table(comparison(Runs([tmp_path / name for name in records]).records))
    shown = {label: entry(table, label, "× Source") for label, _ in table.rows}
    assert shown == {"source": "1.00", "sar": "3.00", "tent": "2.00", "dpal": "4.00"}


def test_a_compiled_row_is_compared_with_the_compiled_source() -> None:
    plain = [make_record("source", ms=4), make_record("sar", ms=8)]
    table = time_table(
        compare([*plain, *(make_record(m, ms=ms, compile=True) for m, ms in (("source", 2), ("sar", 6)))])
    )
    assert entry(table, "sar", "× Source") == "2.00"
    assert entry(table, "sar (compiled)", "× Source") == "3.00"


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        ((1, 1), "ms/image: of the streams' only batch, warm-up included."),
        (
            (1, 10),
            "ms/image: without each stream's first batch (warm-up); streams of one batch count with their warm-up.",
        ),
        ((10, 10), "ms/image: without each stream's first batch (warm-up)."),
    ],
)
def test_the_note_on_warm_up_is_true_for_streams_of_one_batch(batches: tuple[int, int], said: str) -> None:
    records = [
        changed(
            make_record("sar", seed=seed), batch_seconds=[0.1] * count, environment={"device_name": "c", "threads": 1}
        )
        for seed, count in enumerate(batches)
    ]
    notes = [*map(str, time_table(compare(records)).notes)]
    assert any(note.endswith(said) for note in notes)
    assert "Measured on c, 1 thread." in notes


def test_notes_keep_their_code_in_markdown() -> None:
    text = render.markdown(Table("t", (), (), (info("inside `adapt`, not *bold* nor `open"), info("``x` <b>"))))
    assert "- inside `adapt`, not \\*bold\\* nor \\`open\n" in text
    assert "- \\``x` \\<b\\>\n" in text


def test_short_names_are_spelled_out_under_the_table() -> None:
    records = [make_record("sar", task=task) for task in ("gaussian_noise", "mine", "imagenet-a")]
    console = Console(width=200, record=True, file=io.StringIO())
    table = accuracy_table(compare(records))
    render.show(table, console)
    assert "gaus = gaussian_noise." in console.export_text()
    assert "- gaus = gaussian_noise.\n" in render.markdown(table)
    assert names.legend(["mine", "imagenet-a"]) == []


def test_parts_of_streams_are_left_out_or_marked() -> None:
    part, whole = make_record("sar", limit=64), make_record("sar")
    both = comparison([part, whole])
    assert [row.records for row in both.rows] == [(whole,)]
    assert any("1 record with limit=64" in note for note in map(str, both.notes))
    assert any(note.startswith("NOT REPORTABLE") for note in map(str, compare([part]).notes))


def test_results_of_old_code_are_replaced() -> None:
    old, new = make_record("sar", 0.1, method_code="old"), make_record("sar", 0.2, method_code="new")
    comparison = compare([old, new])
    assert [row.first.scores.top1 for row in comparison.rows] == [0.2]
    assert "Skipped 1 record: code or data changed since they were made." in map(str, comparison.notes)


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
    assert "FAILED dpal on fog, seed 0: it broke" in map(str, table.notes)


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


def test_a_missing_cell_shows_as_missing() -> None:
    table = accuracy_table(compare([*two_methods(), make_record("dpal", task="fog")]))
    assert entry(table, "dpal", "snw") == "missing"
    assert entry(table, "dpal", "Avg.") == "–"


def test_one_failed_seed_leaves_no_average() -> None:
    table = accuracy_table(compare([make_record("sar"), make_failure("sar", "it broke", seed=1)]))
    assert entry(table, "sar", "fg") == "failed"
    assert entry(table, "sar", "Avg.") == "–"


def test_fewer_seeds_are_reported() -> None:
    records = [make_record("sar", seed=0), make_record("sar", seed=1), make_record("dpal", seed=0)]
    assert "WARNING dpal has seeds 0 where others have 0, 1." in map(str, compare(records).notes)


def test_a_second_forward_shows_in_the_counts() -> None:
    record = changed(make_record("dpal"), score_point="perturbed", sample_forwards=200, needs_source=True)
    table = accuracy_table(compare([record]))
    assert [entry(table, "dpal", column) for column in ("scored", "fwd", "src")] == ["perturbed", "2.00", "yes"]


def test_ablations_show_variants_and_their_settings() -> None:
    records = [
        changed(
            make_record("dpal", 0.1 * n, settings={"shift_tokens": n, "lr": 0.1}, suite="my-ablation"), label=f"t{n}"
        )
        for n in (1, 2)
    ]
    table = layout(compare(records))["ablation"]
    assert entry(table, "t2", "Avg.") == "20.0"
    assert entry(table, "t2", "variant") == "dpal: shift_tokens=2"


def test_ablations_name_a_published_rate() -> None:
    """Of TENT, None stands for the published rate; of a setting that has another default, for None."""
    rates = {"published": None, "tuned": 0.03}
    records = [
        changed(make_record("tent", settings={"lr": lr, "momentum": lr}, suite="my-ablation"), label=label)
        for label, lr in rates.items()
    ]
    table = layout(compare(records))["ablation"]
    found = [entry(table, label, "variant") for label in rates]
    assert found == ["tent: lr=published, momentum=None", "tent: lr=0.03, momentum=0.03"]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("methods", [2, 12, 25])
def test_no_figure_is_cut_on_any_screen(width: int, methods: int) -> None:
    tasks = [f"task{i}" for i in range(15)]
    records = [make_record(f"method{m}", task=t, seed=s) for m in range(methods) for t in tasks for s in (0, 1)]
    console = Console(width=width, record=True, file=io.StringIO())
    render.show(accuracy_table(compare(records)), console)
    shown = console.export_text()
    assert "…" not in shown
    assert shown.count("50.0 ±0.0") == methods * 16


NAMES = ["[red]x[/red]", "<script>", "a|b", "\\input{x}", "*b*", "__c__", "line\nbreak", "\x1b[31mred"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_on_the_screen(name: str) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    records = [make_record(name, task=name), make_failure(f"{name}2", f"{name} why", task=name)]
    for table in layout(compare(records)).values():
        render.show(table, console)
    shown = console.export_text()
    visible = clean(name)
    assert shown.count(visible) >= 5  # in the head, twice in the rows of each table, in the note
    assert "\x1b" not in shown


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_in_files(name: str) -> None:
    tables = layout(compare([make_record(name), make_record("sar")]))
    markdown = "\n".join(render.markdown(table) for table in tables.values())
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    unescaped = {len(re.findall(r"(?<!\\)\|", line)) for line in lines[:4]}
    assert unescaped == {8}, "a name must not make a column"
    assert not re.search(r"(?<!\\)<", markdown)
    (row, _) = csv.DictReader(io.StringIO(render.csv_text(tables["accuracy"])))
    assert row["method"] == clean(name)


@pytest.mark.parametrize(
    ("task", "column"),
    [("jpeg_compression", "jpg"), ("Art-to-RealWorld", "A→R"), ("imagenet-a", "ImageNet-A"), ("mine", "mine")],
)
def test_columns_are_named_as_in_the_paper(task: str, column: str) -> None:
    assert names.columns([task]) == (column,)


def test_tasks_that_would_look_the_same_keep_their_names() -> None:
    assert names.columns(["Art-to-Clipart", "Ant-to-Cow"]) == ("Art-to-Clipart", "Ant-to-Cow")


def test_nothing_to_report() -> None:
    with pytest.raises(UserError, match="no records to report"):
        compare([])
