"""Compares README's table of `make demo` with the one that the demo wrote, or copies it there.

make demo && python -m benchmarks.demo_table [--write]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
REPORT = ROOT / "results" / "runs" / "demo" / "report" / "report.md"
MARKED = re.compile(r"(?<=<!-- make demo -->\n).*?(?=<!-- end -->)", re.DOTALL)
# Another CPU, or another number of threads, rounds otherwise, and a method close to collapse amplifies it.
TOLERANCE = 2.0  # points of accuracy, or passes per image

Table = dict[tuple[str, str], str]  # (method, column) → what is shown


def first_table(text: str) -> str:
    """The lines of the first Markdown table."""
    found = re.search(r"(^\|.*\|\n)+", text, re.MULTILINE)
    if found is None:
        raise SystemExit("there is no table: run `make demo`, then `python -m benchmarks.demo_table --write`")
    return found[0]


def parsed(table: str) -> Table:
    """Its cells, without the marks of the best."""
    rows = [[word.strip(" *") for word in line.strip("|").split("|")] for line in table.splitlines()]
    head, _, *body = rows
    return {(row[0], name): word for row in body for name, word in zip(head[1:], row[1:], strict=True)}


def differences(shown: Table, made: Table, tolerance: float) -> list[str]:
    """One line per cell that only one of both tables has, or that differs by more than the tolerance."""
    return [
        f"{method}, {column}: README has {shown.get((method, column))}, the demo {made.get((method, column))}"
        for method, column in sorted(shown.keys() | made.keys())
        if not _near(shown.get((method, column), ""), made.get((method, column), ""), tolerance)
    ]


def _near(shown: str, made: str, tolerance: float) -> bool:
    try:
        return abs(float(shown) - float(made)) <= tolerance
    except ValueError:  # words
        return shown == made


def main(words: list[str]) -> int:
    text, made = README.read_text(encoding="utf-8"), first_table(REPORT.read_text(encoding="utf-8"))
    if words == ["--write"]:
        README.write_text(MARKED.sub(lambda _: made, text), encoding="utf-8")
        return 0
    shown = parsed(first_table("".join(MARKED.findall(text))))
    exact, found = (differences(shown, parsed(made), tolerance) for tolerance in (0.0, TOLERANCE))
    print(*exact, f"README's table of the demo: {len(shown)} cells, {len(exact)} differ", sep="\n")
    print(f"{len(found)} of them by more than {TOLERANCE:g} points")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
