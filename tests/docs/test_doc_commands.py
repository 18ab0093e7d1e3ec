"""Every ```sh block of the documents is run here, but for those that are marked as needing what tests do not have.

Runs are made small: a few images, and where a line names neither, one task and two methods.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.cli import Cli
from tests.support.doc_blocks import Block, blocks, documents, problems
from tests.support.folders import make_inspection, save
from tests.support.records import make_record
from tta_bench.cli.main import parser
from tta_bench.records.live import Live
from tta_bench.records.store import Store
from tta_bench.suites import suite

BLOCKS = [block for file in documents() for block in blocks(file, file.read_text())]
NEEDS_TORCH = {"run", "tune", "inspect", "check", "profile", "timing", "show"}  # or images


def is_slow(block: Block) -> bool:
    return any(words[1] in NEEDS_TORCH or "--rerun" in words for words in block.commands)


UNMARKED = [
    pytest.param(block, id=block.name, marks=[pytest.mark.slow] if is_slow(block) else [])
    for block in BLOCKS
    if not block.reason
]


def small(words: list[str]) -> list[str]:
    """The same command on a few images; options that the document gives stay."""
    if words[0] not in ("run", "tune"):
        return words
    found = suite.load(words[words.index("--suite") + 1] if "--suite" in words else suite.DEFAULT)
    given = {"--limit": "32"}
    if words[0] == "run":
        given["--tasks"] = found.tasks[0]
        if found.sweep or "--suite" not in words:
            given["--methods"] = ",".join(list(found.methods)[:2])
    return [*words, *(word for option, value in given.items() if option not in words for word in (option, value))]


def prepare(folder: Path, cli: Cli, *, real: bool) -> None:
    """The run folder that a document takes for granted; made ones are quick, but nothing can be run again or added."""
    if folder.name == "demo" and real:
        cli("run", "--suite", "demo", "--methods", "source,eata", "--tasks", "snow", "--limit", "32", "--out", folder)
    elif "inspect" in folder.name:
        make_inspection(folder)
    elif folder.name == "digits-speed":
        store = Store.create(folder, folder.name)
        for live in (None, Live(0.5), Live(1.0)):
            for method in ("source", "sar"):
                save(store, make_record(method, suite=folder.name, live=live))
    else:
        store = Store.create(folder, folder.name)
        for method in ("source", "eata", "sar", "dpal"):
            for changes in ({"limit": None}, {"limit": 64}, {"scenario": "mixed"}):
                for task in ("snow", "contrast", "defocus_blur"):
                    save(store, make_record(method, suite=folder.name, task=task, **changes))


@pytest.mark.parametrize("block", UNMARKED)
def test_a_block_without_a_mark_runs(block: Block, tmp_path: Path, cli: Cli) -> None:
    for program, *words in block.commands:
        assert program == "tta-bench", f"{block.name}: {program}: mark it, or write it as a command of tta-bench"
        for word in words:
            if word.startswith("results/runs/") and not Path(word).exists():
                prepare(tmp_path / word, cli, real=is_slow(block))
        status, _, err = cli(*small(words))
        assert status == 0, f"{block.name}: {' '.join(words)}: {err}"


def test_commands_have_options_that_exist() -> None:
    """Marked ones as well: options, commands and suites."""
    seen = 0
    for block in BLOCKS:
        for program, *words in block.commands:
            if program != "tta-bench":
                continue
            seen += 1
            known = parser().parse_args([word for word in words if word not in (">", "mine.yaml")])
            name = getattr(known, "suite", None)
            own = block.file.is_relative_to(ROOT / "examples")
            assert name is None or own or name.endswith(".yaml") or name in suite.names(), block.name
    assert seen > 40


def test_no_command_hides_from_these_tests() -> None:
    assert [line for file in documents() for line in problems(file, file.read_text())] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```\ntta-bench run\n```\n", "must be ```sh"),
        ("```bash\npip install x\n```\n", "must be ```sh"),
        ("Text:\n\n    tta-bench run\n", "must be ```sh"),
        ("<!-- not run: no wish -->\n```sh\ntta-bench run\n```\n", "unknown reason 'no wish'"),
        ("<!-- not run: needs data -->\n\nText.\n\n```sh\ntta-bench run\n```\n", "directly before"),
    ],
)
def test_hidden_commands_are_found(text: str, said: str) -> None:
    (line,) = problems(ROOT / "docs" / "x.md", text)
    assert said in line


def test_a_new_block_without_a_mark_is_run() -> None:
    (block,) = blocks(ROOT / "docs" / "x.md", "1. Try\n\n   ```sh\n   tta-bench run --no-such  # comment\n   ```\n")
    assert (block.reason, block.commands, block.line) == ("", [["tta-bench", "run", "--no-such"]], 3)
