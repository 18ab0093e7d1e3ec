"""The command blocks of the documents, and the marks of those that no test runs."""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.support.checkout import ROOT

REASONS = (  # what `<!-- not run: REASON -->` in front of a block may say
    "needs data",
    "needs the network",
    "needs a cluster",
    "needs an optional package",
    "needs your method",
    "needs a board",
    "takes minutes",
    "tests/plugins/test_example_plugin.py runs these on a copy",
)
MARK = re.compile(r"<!-- not run: (.*?) -->\n\s*\Z")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\$ )?(?:tta-bench|make|pip|python|hf|huggingface-cli) ", re.MULTILINE)
INDENTED = re.compile(r"(?<=\n\n) {4,}(?:\$ )?(?:tta-bench|make|pip) ")
SYNOPSIS = re.compile(r"\[--|…")


@dataclass(frozen=True)
class Block:
    file: Path
    line: int
    code: str
    reason: str  # why no test runs it; empty for one that is run

    @property
    def name(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """Its lines as words, without comments."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def documents() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    return sorted([*found, *(ROOT / "results").glob("*/README.md"), *(ROOT / "examples").rglob("README.md")])


def blocks(file: Path, text: str) -> list[Block]:
    """The ```sh blocks of a document."""
    found = []
    for match in FENCE.finditer(text):
        if match[2] == "sh":
            mark = MARK.search(text[: match.start()])
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(file, line, textwrap.dedent(match[3]), mark[1] if mark else ""))
    return found


def problems(file: Path, text: str) -> list[str]:
    """Commands that hide from the tests, and marks that excuse nothing."""
    where = file.relative_to(ROOT)
    found = [
        f"{where}: a block of commands must be ```sh, this is ```{match[2]}: {match[3].splitlines()[0]}"
        for match in FENCE.finditer(text)
        if match[2] != "sh" and COMMAND.search(textwrap.dedent(match[3])) and not SYNOPSIS.search(match[3])
    ]
    plain = FENCE.sub("", text)
    found += [f"{where}: a block of commands must be ```sh: {match[0].strip()}" for match in INDENTED.finditer(plain)]
    marks = re.findall(r"^ *<!-- not run: (.*?) -->$", text, re.MULTILINE)
    found += [
        f"{where}: unknown reason '{mark}' (known: {', '.join(REASONS)})" for mark in marks if mark not in REASONS
    ]
    if len(marks) != sum(bool(block.reason) for block in blocks(file, text)):
        found.append(f"{where}: a mark '<!-- not run: … -->' must stand directly before its ```sh block")
    return found
