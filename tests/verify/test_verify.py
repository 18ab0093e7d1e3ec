"""`tta-bench verify` finds what a folder claims and cannot keep, and says what it could not check."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.checkout import ROOT
from tests.support.cli import Cli
from tests.support.honest import forge, honest_record, honest_run
from tests.support.records import changed, changed_cell, keep
from tta_bench.errors import UserError
from tta_bench.measure import verified
from tta_bench.measure.metrics import contradiction, scores_of
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.suites import suite as suites
from tta_bench.verify import folders, reference
from tta_bench.verify.findings import CHECKS, Audit
from tta_bench.verify.folders import verify

WITHOUT_DATA = {"files", "scores", "counts", "once", "suites", "weights", "orders", "labels", "images"}


def failing(store: Store) -> Counter[str]:
    audit, _ = verify([store.folder])
    return Counter(finding.check for finding in audit.failures)


@pytest.fixture(autouse=True)
def _reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Source is right on three of four images here, which no real one is."""
    record, _ = honest_record("source")
    monkeypatch.setattr(reference, "references", lambda: {reference._key(record.cell, "contrast"): 0.75})


def test_an_honest_folder_holds(tmp_path: Path) -> None:
    audit, found = verify([honest_run(tmp_path / "run").folder])
    assert audit.failures == []
    assert {finding.check for finding in audit.findings if finding.verdict == "holds"} == {*WITHOUT_DATA, "source"}
    assert len(found) == 2


def test_scores_are_computed_once_for_records_and_tables(tmp_path: Path, cli: Cli, monkeypatch: Any) -> None:
    store, computed = honest_run(tmp_path / "run"), Counter[str]()
    assert cli("report", store.folder)[0] == 0

    def noted(record: Record, predictions: Predictions) -> str:
        computed[record.label] += 1
        return contradiction(record, predictions)

    monkeypatch.setattr(verified, "_sound", set())
    for module in (verified, folders):
        monkeypatch.setattr(module, "contradiction", noted, raising=False)
    audit, _ = verify([store.folder])
    assert any(finding.check == "tables" for finding in audit.findings)
    assert computed == {record.label: 1 for record in store.records()}


@pytest.mark.parametrize(("process", "verdict"), [("worker", "holds"), ("host", "not checked"), (None, "not checked")])
def test_a_process_that_has_labels_is_named(tmp_path: Path, process: str | None, verdict: str) -> None:
    store = honest_run(tmp_path / "run")
    for record in store.records():
        environment = {**record.measured.environment, **({"process": process} if process else {})}
        store.save(changed(record, environment=environment), store.predictions(record))
    audit, _ = verify([store.folder])
    assert {finding.verdict for finding in audit.findings if finding.check == "apart"} == {verdict}


def signed(record: Record, predictions: Predictions, **changes: Any) -> tuple[Record, Predictions]:
    """A record whose scores follow from these predictions, then changed."""
    return changed(replace(record, scores=scores_of(predictions, record.cell.spec.tasks)), **changes), predictions


def a_score(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, predictions, top1=0.99)


def an_ece(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, predictions, ece=0.001)


def a_label(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    label = predictions.label.copy()
    label[0] = predictions.prediction[0]  # the first prediction becomes right
    return signed(record, replace(predictions, label=label))


def an_order(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, replace(predictions, index=predictions.index[::-1].copy()))


def an_order_by_name(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, stream="another"), predictions)


def some_weights(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, weights="of mine"), predictions)


def other_images(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, images="of mine"), predictions)


def a_severity(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(changed(record, data={"kind": "digits-c", "severity": 1}), predictions)


def a_time(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, predictions, seconds={**record.measured.seconds, "adapt": 0.001})


def a_date(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    return signed(record, predictions, finished_at="2999-01-01T00:00:00+00:00")


def a_stream_without_its_end(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    columns = {name: column[:320] for name, column in vars(predictions).items() if column is not None}
    return signed(changed(record, batch_seconds=[0.02] * 10), Predictions(**columns))


def an_impossible_scenario(record: Record, predictions: Predictions) -> tuple[Record, Predictions]:
    """Its order cannot be made anywhere, so that it must not count as one that only cannot be checked here."""
    cell = changed_cell(record.cell, scenario="ccc", scenario_settings={"length": 10**12})
    return signed(record, predictions, cell=cell)


@pytest.mark.parametrize(
    ("lie", "checks"),
    [
        (a_score, {"scores"}),
        (an_ece, {"scores"}),
        (a_label, {"labels"}),
        (an_order, {"orders"}),
        (an_order_by_name, {"orders"}),
        (some_weights, {"weights"}),
        (other_images, {"images"}),
        (a_severity, {"suites", "images"}),
        (a_time, {"counts"}),
        (a_date, {"counts"}),
        (a_stream_without_its_end, {"orders", "labels"}),
        (an_impossible_scenario, {"orders"}),
    ],
)
def test_a_lie_with_fresh_digests_is_found(
    tmp_path: Path, lie: Callable[[Record, Predictions], tuple[Record, Predictions]], checks: set[str]
) -> None:
    store = honest_run(tmp_path / "run")
    forge(store, *lie(*honest_record("tent")))
    assert failing(store) == dict.fromkeys(checks, 1)


def test_source_must_score_its_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = honest_record("source")
    monkeypatch.setattr(reference, "references", lambda: {reference._key(record.cell, "contrast"): 0.5})
    assert failing(honest_run(tmp_path / "run")) == {"source": 1}
    monkeypatch.setattr(reference, "references", dict)
    audit, _ = verify([tmp_path / "run"])
    assert [f.text for f in audit.findings if f.check == "source"] == [
        "no reference for Source on digits-c-5 with these weights"
    ]


def test_the_packaged_reference_is_that_of_the_committed_results() -> None:
    known = {key[0] + key[2]: top1 for key, top1 in _packaged().items()}
    for suite in ("cifar10-c-5-resnet20", "cifar10-c-5-vit-s", "digit-pairs-c-5", "digits-c-5"):
        text = (ROOT / "results" / suite / "leaderboard.csv").read_text()
        rows = [row for row in csv.DictReader(text.splitlines()) if row["method"] == "source"]
        data = json.dumps(suites.load(suite).data, sort_keys=True)
        assert len(rows) >= 15
        for row in rows:
            assert known[data + row["task"]] == pytest.approx(float(row["top1"]), abs=reference.DISTANCE)


def _packaged() -> dict[tuple[str, str, str], float]:
    text = Path(reference.__file__).with_name(reference.FILE).read_text()
    return {
        (line["data"], line["weights"], line["task"]): float(line["top1"]) for line in csv.DictReader(text.split("\n"))
    }


def test_data_that_is_not_here_is_said(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "imagenet-c-5")
    record, predictions = honest_record("source")
    cell = changed_cell(
        record.cell, suite="imagenet-c-5", data={"kind": "imagenet-c", "severity": 5}, model="x", weights="y"
    )
    keep(store, replace(record, cell=cell), predictions)
    audit, _ = verify([store.folder])
    said = {finding.check: finding.text for finding in audit.findings if finding.verdict == "not checked"}
    assert said["labels"].startswith("no data: this suite needs --data-root DIR")
    assert said["weights"] == "no published hash of the weights of 'x'"


def test_damage_is_one_finding_and_the_rest_is_checked(tmp_path: Path) -> None:
    store = honest_run(tmp_path / "run")
    (damaged,) = store.cells.glob("tent*.npy")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    audit, found = verify([store.folder])
    assert [(f.check, f.where) for f in audit.failures] == [("files", str(damaged))]
    assert [record.cell.spec.method for record, _ in found] == ["source"]


def test_two_folders_that_contradict_each_other(tmp_path: Path) -> None:
    first, second = honest_run(tmp_path / "a"), honest_run(tmp_path / "b")
    assert verify([first.folder, second.folder])[0].failures == []
    record, predictions = honest_record("tent")
    forge(second, *signed(record, replace(predictions, prediction=predictions.label)))
    audit, _ = verify([first.folder, second.folder])
    (finding,) = audit.failures
    assert f"{first.folder} and {second.folder} hold other results of the same cell" in finding.text


def test_tables_must_follow_from_the_records(tmp_path: Path, cli: Cli) -> None:
    store = honest_run(tmp_path / "run")
    assert cli("report", store.folder)[0] == 0
    assert cli("compare", store.folder, "--a", "source", "--b", "tent", "--out", store.folder / "report")[0] == 0
    status, out, _ = cli("verify", store.folder)
    assert (status, "4 hold" in out) == (0, True)
    table = store.folder / "report" / "accuracy.csv"
    table.write_text(table.read_text().replace("75.00", "85.00"))
    status, out, _ = cli("verify", store.folder)
    assert status == 1
    assert f"{table}: is not what the records give" in out


def test_tables_made_before_other_methods_ran_are_stale_not_false(tmp_path: Path, cli: Cli) -> None:
    store = honest_run(tmp_path / "run")
    later = honest_record("tent")
    files = [file for file in store.cells.iterdir() if file.name.startswith("tent--")]
    for file in files:
        file.unlink()
    assert cli("report", store.folder)[0] == 0
    keep(store, *later)
    status, out, _ = cli("verify", store.folder)
    assert (status, "STALE" in out, "FAILS" in out) == (0, True, False)
    assert "3 tables out of date: `tta-bench report` makes them again." in out
    table = store.folder / "report" / "time.csv"
    table.write_text(table.read_text().replace("source,", "source,9"))
    status, out, _ = cli("verify", store.folder)
    assert (status, "do not trust these numbers" in out) == (1, True)
    assert cli("report", store.folder)[0] == 0
    status, out, _ = cli("verify", store.folder)
    assert (status, "STALE" in out) == (0, False)


def test_tables_of_a_command_with_another_order_of_rows_are_not_false(tmp_path: Path, cli: Cli) -> None:
    store = honest_run(tmp_path / "run")
    assert cli("report", store.folder)[0] == 0
    table = store.folder / "report" / "accuracy.csv"
    head, *rows = table.read_text().splitlines()
    table.write_text("\n".join([head, *rows[::-1]]) + "\n")
    status, out, _ = cli("verify", store.folder)
    assert (status, "FAILS" in out) == (0, False)
    table.write_text("\n".join([head, *rows[1:]]) + "\n")
    assert "accuracy.csv: is not what the records give" in cli("verify", store.folder)[1]
    table.write_text("x" * 200_000 + "\n")  # longer than a field of a CSV file may be
    assert "accuracy.csv: is not what the records give" in cli("verify", store.folder)[1]


def test_a_trial_of_another_method_on_one_task_leaves_the_tables_stale_not_false(tmp_path: Path, cli: Cli) -> None:
    store = honest_run(tmp_path / "run", ["source"])
    keep(store, *honest_record("source", "fog"))
    store.note_command(["tta-bench", "run"], ["fog", "contrast"], ["source"])
    assert cli("report", store.folder)[0] == 0
    table = store.folder / "report" / "accuracy.csv"
    head = table.read_text().splitlines()[0]
    keep(store, *honest_record("tent"))
    store.note_command(["tta-bench", "run"], ["contrast"], ["source", "tent"])
    status, out, _ = cli("verify", store.folder)
    assert (status, "STALE" in out, "FAILS" in out) == (0, True, False)
    assert cli("report", store.folder)[0] == 0
    assert table.read_text().splitlines()[0] == head
    store.note_command(["tta-bench", "run"], ["contrast", "fog"], ["source"])
    assert (cli("report", store.folder)[0], table.read_text().splitlines()[0] == head) == (0, False)


def test_columns_of_a_table_in_another_order_are_not_false(tmp_path: Path, cli: Cli) -> None:
    store = honest_run(tmp_path / "run", ["source"])
    keep(store, *honest_record("source", "fog"))
    assert cli("report", store.folder)[0] == 0
    store.note_command(["tta-bench", "run"], ["fog", "contrast"], ["source"])
    status, out, _ = cli("verify", store.folder)
    assert (status, "FAILS" in out) == (0, False)


def test_the_findings_as_json(tmp_path: Path, cli: Cli) -> None:
    store = honest_run(tmp_path / "run")
    status, out, _ = cli("verify", store.folder, "--json", tmp_path / "v.json")
    content = json.loads((tmp_path / "v.json").read_text())
    assert (status, content["ok"]) == (0, True)
    assert content["checks"]["labels"] == {"holds": 2}
    assert "Nothing contradicts these records; 2 of 21 checks could not be made." in out
    forge(store, *a_label(*honest_record("tent")))
    assert cli("verify", store.folder, "--json", tmp_path / "v.json")[0] == 1
    content = json.loads((tmp_path / "v.json").read_text())
    assert [finding["check"] for finding in content["findings"] if finding["verdict"] == "fails"] == ["labels"]


def test_a_file_that_cannot_be_written_is_refused_first(tmp_path: Path, cli: Cli) -> None:
    store = honest_run(tmp_path / "run")
    (tmp_path / "file").touch()
    for path, said in ((tmp_path, "is a folder, expected a file"), (tmp_path / "file" / "v.json", "cannot be written")):
        status, out, err = cli("verify", store.folder, "--json", path)
        assert (status, out) == (2, "")
        assert f"{path} {said}" in err


def test_a_folder_that_is_named_twice_is_checked_once(tmp_path: Path) -> None:
    store = honest_run(tmp_path / "run")
    once, twice = (verify([store.folder] * times)[0] for times in (1, 2))
    assert len(once.findings) == len(twice.findings)


def test_no_folder_and_no_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        verify([tmp_path])
    with pytest.raises(UserError, match="no records"):
        verify([Store.create(tmp_path / "run", "s").folder])


def test_verifying_needs_no_torch(tmp_path: Path) -> None:
    store = honest_run(tmp_path / "run")
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.partition('.')[0] == 'torch': raise ImportError('there is no torch')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from tta_bench.cli.main import main\n"
        f"print(main(['verify', {str(store.folder)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] in ("0", "1"), done.stderr
    assert "weights: source weights match the published ones (2 hold)" in done.stdout


def test_cells_that_run_again_agree_bit_for_bit_or_are_found(tmp_path: Path, cli: Cli, small_suite: Path) -> None:
    folder = tmp_path / "run"
    chosen = ("--suite", small_suite, "--methods", "tent", "--tasks", "contrast", "--limit", 64)
    assert cli("run", *chosen, "--out", folder)[0] == 0
    status, out, _ = cli("verify", folder, "--rerun", 1, "--seed", 3)
    assert status == 0
    assert "chosen with --seed 3" in out
    assert "same predictions, bit for bit" in out
    store = Store.open(folder)
    (record,) = store.records()
    made = store.predictions(record)
    forged = replace(made, prediction=made.label)
    store.save(replace(record, scores=scores_of(forged, record.cell.spec.tasks)), forged)
    status, out, _ = cli("verify", folder, "--rerun", 1)
    assert status == 1
    assert "on the same platform with the same code" in out


def test_every_check_has_a_promise() -> None:
    assert WITHOUT_DATA | {"source", "tables", "apart", "rerun"} == set(CHECKS)


@pytest.mark.parametrize(
    ("scenario", "repeats", "shown", "is_checked"),
    [
        ("continual+recurring:2+dirichlet:0.1", 2, None, True),
        ("continual+classes+border", 1, None, True),
        ("continual+classes+border", 1, 50, False),
        ("normal+zipf+classes", 1, None, True),  # if it happens to show each image once
        ("gradual+stored", 1, None, False),
    ],
)
def test_source_has_a_reference_in_even_streams(
    monkeypatch: pytest.MonkeyPatch, scenario: str, repeats: int, shown: int | None, is_checked: bool
) -> None:
    record, found = honest_record("source")
    images, right = len(found), 0.75
    record = replace(changed(record, scenario=scenario), scores=scores_of(found, ["contrast"]))
    kept = np.repeat(np.arange(images)[:shown], repeats)
    known = reference._key(record.cell, "contrast")
    monkeypatch.setattr(reference, "references", lambda: {known: right})
    monkeypatch.setattr(reference, "sizes", lambda: {known: images})
    audit = Audit()
    reference.check_source(record, replace(found, index=found.index[kept], task=found.task[kept]), audit, "x")
    assert [finding.verdict for finding in audit.findings] == ["holds" if is_checked else "not checked"]
