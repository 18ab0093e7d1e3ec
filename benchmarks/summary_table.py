"""Writes a table of a results folder, one row per method, into README and other documents.

    python -m benchmarks.summary_table results/cifar10-c-5-vit-s README.md docs/photographs.md

It replaces the lines between `<!-- summary of results/cifar10-c-5-vit-s -->` and `<!-- end -->`. Every number is from
the CSV files that `tta-bench report` and `compare` wrote into the folder. Methods without a comparison with Source are
left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from statistics import fmean, stdev

import pandas as pd

HEAD = ["method", "accuracy (%)", "against Source (points, 95 % interval)", "tasks clearly better, worse"]
PASSES, TIME = "forwards + backwards per image", "time × Source"
LEAST = 0.85  # × the passes: a faster adaptation was not timed under the same load as Source


def table(folder: Path) -> str:
    """The table of a results folder: Source and the methods compared with it, in the order of its time table.

    Times are left out altogether if passes contradict one of them: then other jobs have disturbed all.
    """
    cells = pd.read_csv(folder / "leaderboard.csv")
    cells = cells[cells["status"] == "done"]
    times = pd.read_csv(folder / "time.csv").set_index("method")["× Source"]
    shown = [row for row in times.index if row == "source" or (folder / "compare" / row).is_dir()]
    best = max(shown, key=lambda row: _accuracies(cells, row)[0])
    has_times = all(times[row] >= LEAST * sum(_passes(cells, row)) for row in shown)
    head = [*HEAD, PASSES, *[TIME] * has_times]
    lines = [_line(folder, cells, row, row == best) + [f"{times[row]:.1f}"] * has_times for row in shown]
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, *lines]).replace(
        "\n", f"\n|---|{'--:|' * (len(head) - 1)}\n", 1
    )


def _line(folder: Path, cells: pd.DataFrame, row: str, is_best: bool) -> list[str]:
    mean, spread = _accuracies(cells, row)
    accuracy = f"{mean:.1f}" + (f" ±{spread:.1f}" if spread is not None else "")
    forwards, backwards = _passes(cells, row)
    against, tasks = ("", "") if row == "source" else _against(folder / "compare" / row / "compare.csv")
    return [row, f"**{accuracy}**" if is_best else accuracy, against, tasks, f"{forwards:.2f} + {backwards:.2f}"]


def _passes(cells: pd.DataFrame, row: str) -> tuple[float, float]:
    own = cells[cells["label"] == row]
    return own["forwards_per_image"].mean(), own["backwards_per_image"].mean()


def _accuracies(cells: pd.DataFrame, row: str) -> tuple[float, float | None]:
    """The mean over tasks and seeds, and the standard deviation over seeds if there are several; in percent."""
    own = cells[cells["label"] == row]
    by_seed = [100 * top1 for top1 in own.groupby("seed")["top1"].mean()]
    return fmean(by_seed), stdev(by_seed) if len(by_seed) > 1 and row != "source" else None


def _against(file: Path) -> tuple[str, str]:
    lines = pd.read_csv(file).set_index("task")
    average, verdicts = lines.loc["Avg."], lines["b is"]
    interval = f"{average['difference']:+.1f} ({average['95 % low']:+.1f} to {average['high']:+.1f})"
    return interval, f"{(verdicts == 'better').sum()}, {(verdicts == 'worse').sum()}"


def marked(folder: str) -> re.Pattern[str]:
    """Where a document shows the table of this folder."""
    return re.compile(rf"(?<=<!-- summary of {re.escape(folder)} -->\n).*?(?=<!-- end -->)", re.DOTALL)


def main(words: list[str]) -> None:
    folder, *documents = words
    for document in map(Path, documents):
        # Once: after an empty match, another could begin at the same place and reach to the end of the next table.
        text, count = marked(folder).subn(table(Path(folder)), document.read_text(encoding="utf-8"), count=1)
        if not count:
            raise SystemExit(f"{document}: no line `<!-- summary of {folder} -->`")
        document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
