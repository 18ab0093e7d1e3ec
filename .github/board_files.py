"""Takes the submissions that a pull request changes out of git, as data: `board_files.py BASE HEAD FOLDER`.

Nothing is checked out: blobs are read by name, with a limit on their size, and links are left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PLACE = re.compile(r"results/board/([a-z0-9][a-z0-9.-]{0,79})/(submission\.yaml|run\.zip)")
MOST = 100 * 10**6  # bytes of a file
PLAIN = ("100644", "100755")  # modes of plain files; a link is 120000


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], check=True, capture_output=True).stdout


def main(base: str, head: str, out: str) -> int:
    """Write both files of each changed submission; 1 if the pull request changes anything else below the board."""
    changed = git("diff", "--name-only", "-z", base, head, "--", "results/board").decode().split("\0")
    odd = [name for name in changed if name and not PLACE.fullmatch(name)]
    ids = sorted({match[1] for name in changed if (match := PLACE.fullmatch(name))})
    for name in odd[:5]:
        print(f"not a file of a submission: {name!r}")
    for one in ids:
        folder = Path(out) / one
        folder.mkdir(parents=True)
        for line in git("ls-tree", "-l", "-z", head, f"results/board/{one}/").decode().split("\0"):
            match = re.fullmatch(r"(\d+) blob ([0-9a-f]+) +(\d+)\t(.*)", line)
            place = PLACE.fullmatch(match[4]) if match else None
            if match and place and match[1] in PLAIN and int(match[3]) <= MOST:
                (folder / place[2]).write_bytes(git("cat-file", "blob", match[2]))
    return 1 if odd or not ids else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
