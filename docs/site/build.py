"""Builds the documentation's site: `python docs/site/build.py [OUT]`. Any warning is an error.

Pages are the Markdown files that GitHub shows. They are copied into a source folder that mirrors the checkout, so that
every relative link means the same in both places, with all files that they link to. A link to nothing is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "docs" / "site"
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)\s]*)?\)")
NOT_IN_A_MENU = "---\norphan: true\n---\n\n"


def main(out: Path) -> int:
    source = out.parent / f"{out.name}-source"
    for old in (out, source):
        shutil.rmtree(old, ignore_errors=True)
    source.mkdir(parents=True)
    stage(source)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-c", str(HERE)]
    done = subprocess.run([*command, "-d", str(source / ".doctrees"), str(source), str(out)])
    if not done.returncode:
        print(f"Written: {out / 'index.html'}")
    return done.returncode


def stage(source: Path) -> None:
    """Copy pages, what they link to, and the pages that are made from code."""
    shutil.copy(HERE / "index.md", source / "index.md")
    menu = sorted((ROOT / "docs").glob("*.md"))
    for page in linked(menu):
        place = source / page.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md" and page not in menu:
            place.write_text(NOT_IN_A_MENU + page.read_text())
        else:
            shutil.copy(page, place)
    made = source / "docs" / "reference"
    made.mkdir()
    for name, text in reference.pages().items():
        (made / name).write_text(text)


def linked(pages: list[Path]) -> Iterator[Path]:
    """These pages, and every file that they link to, directly or through other pages."""
    waiting, seen = list(pages), set(pages)
    while waiting:
        page = waiting.pop()
        yield page
        if page.suffix != ".md":
            continue
        for target in LINK.findall(page.read_text()):
            there = (page.parent / target).resolve()
            if not there.is_file() or ROOT not in there.parents:
                raise SystemExit(f"{page.relative_to(ROOT)}: broken link to {target}: expected a file of this checkout")
            if there not in seen:
                seen.add(there)
                waiting.append(there)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if sys.argv[1:] else "build/docs").resolve()))
