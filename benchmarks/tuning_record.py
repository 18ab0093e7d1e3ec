"""Writes what `make tune` tried: one line per method and settings, best first, with the accuracy of every corruption.

python -m benchmarks.tuning_record results/runs/digit-pairs-c-holdout results/tuning/digit-pairs.csv

Lines of methods that this run did not try stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tta_bench
from tta_bench.registry import installed
from tta_bench.report.rows import setting
from tta_bench.settings import Settings, defaults, plain

if TYPE_CHECKING:
    import pandas as pd


def record(run: str) -> pd.DataFrame:
    """Mean accuracies over the seeds that a line names; only whole streams count, and settings tried on every task."""
    cells = tta_bench.frame(run, limit=None)
    cells = cells[cells["status"] == "done"].copy()
    for method, tried in cells.groupby("plugin")["settings"]:
        cells.loc[tried.index, "settings"] = _spelled(method, list(tried))
    rows = []
    for (method, settings), tried in cells.groupby(["plugin", "settings"]):
        by_task = tried.groupby("task")["accuracy"].mean()
        if len(by_task) < cells["task"].nunique():
            continue  # interrupted: its mean would be over other tasks than the others'
        rows.append(
            {
                "method": method,
                "settings": settings,
                "seeds": " ".join(map(str, sorted(set(tried["seed"])))),
                "mean": by_task.mean(),
                **by_task.to_dict(),
                "resets": tried.groupby("seed")["resets"].sum().mean(),
            }
        )
    import pandas as pd

    return _sorted(pd.DataFrame(rows)).round(2)


def with_earlier(found: pd.DataFrame, file: Path) -> pd.DataFrame:
    """The lines of a file for other methods, and these."""
    import pandas as pd

    if not file.is_file():
        return found
    earlier = pd.read_csv(file)
    return _sorted(pd.concat([earlier[~earlier["method"].isin(found["method"])], found]))


def _sorted(lines: pd.DataFrame) -> pd.DataFrame:
    return lines.sort_values(["method", "mean"], ascending=[True, False])


def _spelled(method: str, tried: list[Settings]) -> list[str]:
    """Each by the settings that the grid varied, in the order of the method's own; the others are in the records.

    Where it varied none, by those that are not as published.
    """
    published = plain(defaults(installed().load(method)))
    own = [key for key in tried[0] if key != "seed"]
    varied = [key for key in own if len({repr(settings[key]) for settings in tried}) > 1]
    named = varied or [key for key in own if tried[0][key] != published.get(key, ...)]
    words = ([setting(key, settings[key], published.get(key, ...)) for key in named] for settings in tried)
    return [" ".join(pairs) or "as published" for pairs in words]


if __name__ == "__main__":
    run, out = sys.argv[1], Path(sys.argv[2])
    out.parent.mkdir(parents=True, exist_ok=True)
    with_earlier(record(run), out).to_csv(out, index=False)
    print(f"{out}: {len(out.read_text().splitlines()) - 1} settings tried")
