"""The command line as a user sees it: what works, and the error of each mistake."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import timm
from safetensors.torch import save_file

from tests.support import trees
from tests.support.cli import SMALL, Cli
from tests.support.denied import denied
from tta_bench.runs import execute as bench
from tta_bench.runs.watcher import Watcher


def test_run_ends_with_tables_on_screen_and_as_files(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    status, shown, _ = cli("run", "--suite", small_suite, "--limit", 64, "--out", out)
    assert status == 0
    assert "small: accuracy (%)" in shown
    assert "small: time and cost" in shown
    assert "NOT REPORTABLE" in shown
    written = {path.name: path.read_bytes() for path in (out / "report").iterdir()}
    assert set(written) == {"report.md", "accuracy.csv", "time.csv", "leaderboard.md", "leaderboard.csv", "report.html"}
    cli("report", out, "--format", "md,csv,html")
    assert {path.name: path.read_bytes() for path in (out / "report").iterdir()} == written
    assert len(list((out / "cells").glob("*.json"))) == 4 == len(list((out / "cells").glob("*.npy")))
    assert json.loads((out / "manifest.json").read_text())["suite"] == "small"


def test_the_same_command_again_runs_nothing_and_shows_the_same_tables(
    cli: Cli, small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("run", "--suite", small_suite, "--limit", 64, "--out", tmp_path / "run")
    _, first, _ = cli(*command)
    monkeypatch.setattr(bench, "run_cell", None)  # would raise if called
    status, second, _ = cli(*command)
    assert status == 0
    tables = first[first.index("small: accuracy") :]
    assert second[second.index("small: accuracy") :] == tables
    _, reported, _ = cli("report", tmp_path / "run")
    assert tables.startswith(reported[: reported.index("Written")].rstrip())


def test_changed_settings_run_again_beside_the_old(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "run", "--methods", "tent")
    cli(*command)
    cli(*command, "--set", "tent.lr=0.1")
    _, shown, _ = cli("report", tmp_path / "run")
    rows = [line.split()[:2] for line in shown.splitlines()]
    assert ["tent", "(lr=0.1)"] in rows
    assert any(row[0] == "tent" and row[1:] != ["(lr=0.1)"] for row in rows if row)


def test_source_of_an_earlier_command_is_shown_too(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", small_suite, "--out", tmp_path / "run", "--limit", 64)
    cli(*command, "--methods", "source")
    cli(*command, "--methods", "source", "--seeds", 1)
    cli(*command, "--methods", "source", "--batch-size", 16)
    _, shown, _ = cli(*command, "--methods", "tent")
    rows = [line.split() for line in shown[shown.index("small: time") :].splitlines() if line.strip()]
    costs = {row[0]: row for row in rows if row[0] in ("source", "tent")}
    assert float(costs["source"][3]) == 1.0
    assert float(costs["tent"][3]) > 0, "there is a multiple; how large it is, a busy machine decides"
    assert "WARNING" not in shown, "Source's other seed is no part of it"


def test_fresh_starts_over_and_keeps_the_old_folder(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "run", "--methods", "source")
    cli(*command)
    status, shown, _ = cli(*command, "--fresh")
    assert status == 0
    assert "Renamed the old folder to" in shown
    (old,) = tmp_path.glob("run.old-*")
    assert len(list((old / "cells").glob("*.json"))) == 2


def test_ctrl_c_says_what_is_kept(cli: Cli, small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "run")
    real = bench.run_cell

    def interrupted(work: bench.Work, on_batch: object, adapt: object) -> object:
        if work.cell.name == "brightness":
            raise KeyboardInterrupt
        return real(work)

    monkeypatch.setattr(bench, "run_cell", interrupted)
    status, shown, _ = cli(*command)
    assert status == 130
    assert "2 of 4 cells are saved" in " ".join(shown.split())
    assert "Run the same command again" in " ".join(shown.split())
    monkeypatch.setattr(bench, "run_cell", real)
    status, shown, _ = cli(*command)
    assert status == 0
    assert "[3/4]" in shown
    assert "[2/4]" not in shown


def test_a_scheduler_that_ends_the_job_loses_nothing(tmp_path: Path) -> None:
    """It signals every process of the job, including those that read images: no cell fails because they die."""
    trees.imagenet_c(tmp_path, classes=6, each=50)
    save_file(timm.create_model("test_vit").state_dict(), tmp_path / "vit.safetensors")
    (tmp_path / "suite.yaml").write_text(
        "name: mine\nabout: a test\nmodel: none\nbatch_size: 4\ntasks: [fog]\n"
        "methods: {source: {}, tent: {}, sar: {}}\ndata: {kind: imagenet-c, severity: 5, allow_partial: true}\n"
    )
    words = ["run", "--suite", tmp_path / "suite.yaml", "--out", tmp_path / "run", "--readers", "2"]
    words += ["--data-root", tmp_path, "--model", f"test_vit={tmp_path / 'vit.safetensors'}", "--device", "cpu"]
    command = subprocess.Popen(
        [sys.executable, "-m", "tta_bench.cli.main", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not list((tmp_path / "run").glob("cells/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(command.pid, signal.SIGTERM)
    shown, err = command.communicate(timeout=60)
    assert (command.returncode, err) == (130, ""), shown
    assert "cells are saved in" in " ".join(shown.split())
    cells = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("cells/*.json")]
    assert {cell["status"] for cell in cells} == {"done"}


def test_a_failed_cell_shows_in_report_and_status(
    cli: Cli, small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(work: bench.Work, on_batch: object, adapt: object) -> object:
        raise ValueError("no luck")

    monkeypatch.setattr(bench, "run_cell", breaks)
    status, shown, _ = cli("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "run")
    assert status == 1
    assert "ValueError: no luck" in shown
    assert cli("report", tmp_path / "run")[0] == 1


BAD = [
    (["run", "--suite", "digits-c-9"], "unknown suite 'digits-c-9'; did you mean"),
    (["run", "--methods", "tnt"], "unknown method 'tnt'; did you mean 'tent'"),
    (["run", "--methods", "tent,tent"], "'tent' is listed twice"),
    (["run", "--methods", ","], "expected at least one name"),
    (["run", "--methods", "tent", "--set", "tent.rl=1"], "no setting 'rl'"),
    (["run", "--methods", "tent", "--set", "tent.lr=fast"], "expected a number"),
    (["run", "--methods", "tent", "--set", "source.lr=1"], "method 'source' is not in this run"),
    (["run", "--set", "lr=1"], "expected METHOD.SETTING=VALUE"),
    (["run", "--device", "tpu"], "device 'tpu'"),
    (["run", "--device", "cuda:99"], "device 'cuda:99' is not available"),
    (["run", "--limit", "0"], "expected a whole number of at least 1, got '0'"),
    (["run", "--batch-size", "-3"], "expected"),
    (["run", "--seeds", "a"], "expected whole numbers"),
    (["run", "--seeds", "1,1"], "listed twice"),
    (["run", "--seeds", f"0,{2**63}"], "expected a whole number below 2^63, got 9223372036854775808"),
    (["inspect", "--method", "tent", "--seed", f"{2**63}"], "expected a whole number below 2^63"),
    (["run", "--model", "no_such_vit"], "unknown model 'no_such_vit'"),
    (["run", "--model", "nothing.safetensors"], "does not exist"),
    (["run", "--stream-speed", "-1"], "expected a number of at least 0, got '-1'"),
    (["run", "--busy", "source"], "--busy requires --stream-speed above 0"),
    (["run", "--stream-speed", "1", "--clock", "nothing.json"], "baseline nothing.json: No such file"),
    (["run", "--orders", "0"], "expected a whole number of at least 1, got '0'"),
    (["run", "--orders", "2", "--seeds", "1"], "--orders chooses the seeds"),
    (["run", "--methods", "tent", "--set", "tent.adapt-every=0"], "adapt-every: expected a whole number of at least 1"),
    (["run", "--no-such-option"], "unrecognized arguments"),
    (
        ["run", "--methds", "tent"],
        "tta-bench run: error: unrecognized arguments: --methds tent; did you mean '--methods'",
    ),
    (["run", "--suite", "nothing.yaml"], "cannot be read"),
    (["report", "nowhere"], "is not a run folder"),
    (["report", "nowhere", "--format", "markdwon"], "unknown format 'markdwon'"),
    (["report", "nowhere", "--format", "htm"], "did you mean 'html'"),
    (["report"], "required: RUN"),
    (["compare", "nowhere", "--a", "sar", "--b", "dpal"], "is not a run folder"),
    (["compare", "nowhere"], "required: --a, --b"),
    (["list", "colours"], "invalid choice"),
    (["check", "--suite", "digits-c-9"], "unknown suite"),
    (["tune", "--method", "tent", "--grid", "lr"], "expected SETTING=VALUE,VALUE"),
    (["dance"], "invalid choice"),
    ([], "required: COMMAND"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=[" ".join(words) or "nothing" for words, _ in BAD])
def test_a_mistake_is_one_line_and_status_2(cli: Cli, words: list[str], said: str, tmp_path: Path) -> None:
    status, shown, err = cli(*words)
    assert status == 2
    assert said in err
    assert err.count("\n") == 1
    assert shown == ""
    assert list(tmp_path.iterdir()) == [], "a mistake leaves nothing behind"


def test_a_model_with_other_classes_is_refused(cli: Cli, tmp_path: Path) -> None:
    from tta_bench.models import checkpoint

    small = {"img_size": 32, "patch_size": 16, "num_classes": 7, "embed_dim": 8, "depth": 1, "num_heads": 1}
    note = checkpoint.ModelNote(small, (0.5,) * 3, (0.5,) * 3)
    checkpoint.save(checkpoint.build(note), note, tmp_path / "seven.safetensors")
    status, _, err = cli("run", "--model", tmp_path / "seven.safetensors", "--out", tmp_path / "run")
    assert (status, "has 7 classes, but suite 'demo' has 100" in err) == (2, True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("methods:", "method:", "unknown key 'method'; did you mean 'methods'"),
        ("batch_size: 32", "batch_size: lots", "batch_size: expected a whole number"),
        ("[contrast, brightness]", "[contrast, contrast]", "'contrast' is listed twice"),
        ("severity: 5", "severity: 6", "severity: expected 1 to 5"),
    ],
)
def test_a_bad_suite_file_is_one_line(cli: Cli, small_suite: Path, old: str, new: str, said: str) -> None:
    small_suite.write_text(SMALL.replace(old, new))
    status, _, err = cli("run", "--suite", small_suite)
    assert status == 2
    assert said in err
    assert err.count("\n") == 1


def test_unusable_output_folders_are_refused(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    cli("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "run", "--methods", "source")
    for out, said in (("file", "is a file"), ("run", "belongs to suite 'small'"), ("file/sub", "cannot be written")):
        status, _, err = cli("run", "--limit", 32, "--out", tmp_path / out)
        assert (status, said in err, err.count("\n")) == (2, True, 1), err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_read_only_folder(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    with denied(tmp_path / "locked", 0o555):
        status, _, err = cli("run", "--limit", 32, "--out", tmp_path / "locked")
    assert (status, "cannot be written" in err) == (2, True)


def test_a_truncated_record_loses_nothing(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", small_suite, "--limit", 32, "--out", tmp_path / "run", "--methods", "source")
    cli(*command)
    path = min((tmp_path / "run" / "cells").glob("*.json"))
    path.write_text(path.read_text()[:50])
    status, _, err = cli("report", tmp_path / "run")
    assert (status, path.name in err, err.count("\n")) == (2, True, 1)
    status, shown, _ = cli(*command)
    assert (status, f"WARNING {path.name} is damaged" in shown) == (0, True)
    assert cli("report", tmp_path / "run")[0] == 0


def test_check_finds_all_mistakes_at_once(cli: Cli) -> None:
    assert cli("check", "--methods", "source,tent")[0] == 0
    status, shown, _ = cli("check", "--methods", "tnt,tent", "--set", "tent.rl=1", "--device", "tpu", "--model", "x")
    assert status == 2
    assert shown.count("ERROR") == 4


def test_check_says_what_a_method_would_adapt(cli: Cli) -> None:
    _, shown, _ = cli("check", "--methods", "tent")
    assert "tent on digit-pairs-vit: adapts 3,200 numbers" in shown  # 25 norms x 2 x 64


def test_tune_ranks_a_grid(cli: Cli, tmp_path: Path) -> None:
    status, shown, _ = cli(
        "tune",
        "--method",
        "tent",
        "--grid",
        "lr=1e-4,1e-3",
        "--grid",
        "steps=1,2",
        "--limit",
        64,
        "--out",
        tmp_path / "t",
    )
    assert status == 0
    rows = [line for line in shown.splitlines() if line.strip().startswith("tent (") and "update" in line]
    averages = [float(line.split()[-5]) for line in rows]
    assert len(averages) == 4
    assert averages == sorted(averages, reverse=True)


def test_a_watcher_need_not_watch() -> None:
    Watcher().on_batch(1, 0.5)


@pytest.mark.parametrize("code", ["import tta_bench", "from tta_bench.cli.main import main; main(['--version'])"])
def test_the_command_line_starts_fast(code: str) -> None:
    def cpu_seconds() -> float:  # not wall time: the machine may be busy
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_seconds() for _ in range(3)) < 0.5


TYPOS = [["run", "--suite", "digits-c-9"], ["run", "--methods", "tnt"], ["run", "--set", "tnt.lr=1"]]
TYPOS += [
    ["check", "--suite", "digits-c-9"],
    ["tune", "--method", "tnt", "--grid", "lr=1"],
    ["inspect", "--method", "tnt"],
]


@pytest.mark.parametrize("words", TYPOS, ids=" ".join)
def test_a_typo_in_a_name_does_not_wait_for_torch(words: list[str]) -> None:
    code = f"import sys; from tta_bench.cli.main import main; print(main({words}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "2 False\n", done.stderr


def test_version(cli: Cli) -> None:
    status, shown, _ = cli("--version")
    assert (status, shown.startswith("tta-bench ")) == (0, True)


def test_a_terminal_without_unicode_works() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tta_bench.cli.main", "list", "suites"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "digits-c-5" in done.stdout


@pytest.mark.parametrize(
    ("words", "what"),
    [(("--data-root", ""), "--data-root"), (("--cache=",), "--cache"), (("--methods", "sar", ""), "an argument")],
)
def test_a_shell_variable_that_was_not_set_is_noticed(cli: Cli, words: tuple[str, ...], what: str) -> None:
    status, _, err = cli("run", *words)
    assert (status, err.count("\n")) == (2, 1)
    assert f"{what} is empty: is a shell variable unset?" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list",), "required: methods|suites|models|datasets|metrics|scenarios ("),
        (("suite",), "required: copy|schema ("),
        (("board",), "required: check|build|new|schema ("),
    ],
)
def test_a_missing_word_lists_the_words_there_are(words: tuple[str, ...], said: str, cli: Cli) -> None:
    status, _, err = cli(*words)
    assert (status, said in err) == (2, True), err


def test_too_little_memory_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tta_bench.cli.list_.run", lambda args: (_ for _ in ()).throw(MemoryError("763 MiB")))
    status, _, err = cli("list", "methods")
    assert (status, err) == (2, "tta-bench: error: not enough memory (763 MiB): ask for less\n")
