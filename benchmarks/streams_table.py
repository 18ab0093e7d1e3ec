"""Writes the table of a study of streams into its README: a row per method, a column per stream.

    python -m benchmarks.streams_table results/cifar10-c-streams continual correlated mixed-correlated

It replaces the lines between `<!-- streams -->` and `<!-- end -->` of the folder's README.md. Every number is from the
leaderboard.csv that `tta-bench report` wrote into the folder of a stream. Methods are ordered by their gain over Source
under the first stream; a method that gains there and falls below Source under another stream is marked with ▼ there.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd

MARKED = re.compile(r"(?<=<!-- streams -->\n).*?(?=<!-- end -->)", re.DOTALL)


def averages(folder: Path, stream: str) -> pd.Series:
    """Accuracy in percent by row, mean over tasks and seeds."""
    cells = pd.read_csv(folder / stream / "leaderboard.csv")
    return 100 * cells[cells["status"] == "done"].groupby("label")["top1"].mean()


def table(folder: Path, streams: list[str]) -> str:
    """The table: average accuracy under each stream, `–` for what has not run."""
    shown = pd.DataFrame({stream: averages(folder, stream) for stream in streams})
    gains = shown - shown.loc["source"]
    shown = shown.loc[gains.sort_values(streams[0], ascending=False).index]
    lines = ["| method | " + " | ".join(f"`{stream}`" for stream in streams) + " |", "|---|" + "--:|" * len(streams)]
    for row, values in shown.iterrows():
        gains_first = gains.loc[row, streams[0]] > 0
        texts = [_text(value, gains_first and gain < 0) for value, gain in zip(values, gains.loc[row], strict=True)]
        lines.append(f"| {row} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def _text(accuracy: float, falls: bool) -> str:
    return "–" if pd.isna(accuracy) else f"{accuracy:.1f}{' ▼' if falls else ''}"


def main(words: list[str]) -> None:
    folder, *streams = words
    readme = Path(folder, "README.md")
    text, count = MARKED.subn(lambda _: table(Path(folder), streams), readme.read_text(encoding="utf-8"), count=1)
    if not count:
        raise SystemExit(f"{readme}: no line `<!-- streams -->`")
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
