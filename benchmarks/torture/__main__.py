"""`make torture`: does its worst to runs and their folders, and writes what came of it into docs/reliability.md.

    python -m benchmarks.torture [--quick] [--only kills,disks]

Needs Linux, and root for the disks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch

import tta_bench.api
import tta_bench.report.write
import tta_bench.runs.execute  # noqa: F401  # forked runs find everything imported
from benchmarks.torture import crowd, disks, fuzz, hostile, hostile_methods, kills, strangers
from benchmarks.torture.scene import Scene
from tta_bench.files import write_whole
from tta_bench.measure.environment import describe

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
KEPT = Path(__file__).parents[2] / "results" / "torture"
BEGIN, END = "<!-- made by make torture: begin -->\n", "<!-- made by make torture: end -->\n"
Figures = dict[str, Any]


def trials(scene: Scene, share: float) -> dict[str, Callable[[], Figures]]:
    """Every trial by name; a `share` below 1 makes them shorter."""

    def some(count: int) -> int:
        return max(3, round(share * count))

    return {
        "kill -9 at random moments": lambda: kills.random_kills(scene, some(200)),
        "kill -9 of workers, adapting processes and supervisors": lambda: kills.engine_kills(scene, some(60)),
        "killed once at every write": lambda: kills.every_write(scene),
        "Ctrl-C, SIGTERM, SIGHUP at random moments": lambda: kills.signals(scene, some(60)),
        "full disk, no inodes, read-only disk": lambda: disks.bad_disks(scene),
        "several processes on one folder": lambda: crowd.crowd(scene, 4),
        "flipped bits": lambda: crowd.flips(scene, some(3000)),
        "spoiled records, manifests, predictions, suites, timing files": lambda: fuzz.run(some(3000)),
        "hostile methods": lambda: _hostile(share),
        "hostile result folders": lambda: strangers.strangers(),
    }


def _hostile(share: float) -> Figures:
    deeds = [*(name for name in hostile_methods.DEEDS if name != "none"), "sly"]
    outcome = hostile.attack(deeds if share == 1 else deeds[:: round(1 / share)])
    return {**outcome.to_dict(), "verdicts": outcome.verdicts, "problems": outcome.uncontained + outcome.touched}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything; keeps no figures")
    parser.add_argument("--only", default="", help="only trials whose name has one of these words")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        scene = Scene(Path(home))
        for name, trial in trials(scene, 0.1 if args.quick else 1).items():
            if args.only and not any(word in name for word in args.only.split(",")):
                continue
            began = time.monotonic()
            figures = trial()
            print(f"{name} ({time.monotonic() - began:.0f} s): {figures}", flush=True)
            if not args.quick:
                keep(name, figures)
    return 0


def keep(name: str, figures: Figures) -> None:
    """Save a trial's figures, and make the page's table again."""
    KEPT.mkdir(parents=True, exist_ok=True)
    commit = describe(torch.device("cpu"))["commit"]
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    content = {"trial": name, "figures": figures, "date": when, "commit": commit}
    slug = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    write_whole(KEPT / f"{slug}.json", f"{json.dumps(content, indent=1)}\n".encode())
    write_page()


def write_page() -> None:
    """Make the page's table from all figures that are saved."""
    saved = [json.loads(file.read_text()) for file in KEPT.glob("*.json")]
    order = list(trials(Scene.__new__(Scene), 1))
    rows = [
        f"| {one['trial']} | {', '.join(f'{key}: {n}' for key, n in one['figures'].items() if isinstance(n, int))} "
        f"| {one['date']}, {one['commit']} |"
        for one in sorted(saved, key=lambda one: order.index(one["trial"]))
    ]
    table = "\n".join(["| trial | what came of it | made |", "|---|---|---|", *rows])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    machine = f"{platform.system()}, Python {platform.python_version()}, torch {torch.__version__}"
    text = f"{before}{BEGIN}\n{table}\n\n{machine}.\n{END}{rest.partition(END)[2]}"
    write_whole(PAGE, text.encode())


if __name__ == "__main__":
    sys.exit(main())
