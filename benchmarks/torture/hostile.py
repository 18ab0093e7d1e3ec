"""Runs hostile methods beside honest ones, and compares the honest ones' predictions with a run of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
HONEST = ("source", "tent", "eata")


def install(site: Path) -> None:
    """Put the hostile plug-in into a folder as pip would."""
    info = site / "hostile-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "hostile_methods.py").write_text((HERE / "hostile_methods.py").read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n")
    entries = "hostile = hostile_methods:Hostile\nsly = hostile_methods:Sly\n"
    (info / "entry_points.txt").write_text(f"[tta_bench.methods]\n{entries}")


def run(
    deeds: Sequence[str], folder: Path, *, limit: int, time_limit: str, tasks: Sequence[str]
) -> list[dict[str, Any]]:
    """Run each deed before the honest methods; returns all records."""
    site = folder / "site"
    if not site.exists():
        install(site)
    rows: dict[str, dict[str, Any]] = {deed: {"method": "hostile", "deed": deed} for deed in deeds}
    if "sly" in deeds:
        rows["sly"] = {"method": "sly"}
    suite = {
        "name": "hostile",
        "about": "hostile methods before honest ones",
        "data": {"kind": "digits-c", "severity": 5},
        "tasks": list(tasks),
        "model": "digits-vit",
        "batch_size": 32,
        "methods": {**rows, **{name: {} for name in HONEST}},
    }
    file = folder / "hostile.yaml"
    file.write_text(yaml.safe_dump(suite, sort_keys=False))
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    environment.pop("TTA_BENCH_IN_PROCESS", None)
    words = ["run", "--suite", file, "--limit", limit, "--out", folder / "run", "--time-limit", time_limit]
    done = subprocess.run(
        [sys.executable, "-m", "tta_bench", *map(str, words)], capture_output=True, text=True, env=environment
    )
    if "Traceback" in done.stderr or done.returncode not in (0, 1):
        raise RuntimeError(f"the run itself failed with status {done.returncode}: {done.stdout}{done.stderr}")
    records = [json.loads(path.read_text()) for path in sorted((folder / "run" / "cells").glob("*.json"))]
    for path, record in zip(sorted((folder / "run" / "cells").glob("*.json")), records, strict=True):
        predictions = path.with_suffix(".npy")
        record["bytes"] = predictions.read_bytes() if predictions.exists() else b""
    return records


@dataclass(frozen=True)
class Outcome:
    """What came of hostile methods."""

    verdicts: dict[str, str]  # by deed
    uncontained: list[str]  # deeds without a record, and those that score more than Source
    honest: int  # cells of honest methods
    touched: list[str]  # honest cells that failed, or whose predictions differ from those of a run without deeds

    def to_dict(self) -> dict[str, int]:
        return {
            "methods": len(self.verdicts),
            "contained": len(self.verdicts) - len(self.uncontained),
            "honest cells": self.honest,
            "with other predictions": len(self.touched),
        }


def attack(
    deeds: Sequence[str], *, limit: int = 64, time_limit: str = "20s", tasks: Sequence[str] = ("contrast", "brightness")
) -> Outcome:
    """Run deeds before honest methods, and compare these with a run of their own."""
    how: dict[str, Any] = {"limit": limit, "time_limit": time_limit, "tasks": tasks}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "honest").mkdir(), (home / "all").mkdir()
        alone = {key(r): r["bytes"] for r in run((), home / "honest", **how)}
        records = run(deeds, home / "all", **how)
    if not alone or not all(alone.values()):
        raise RuntimeError("the honest methods fail without any hostile one")
    honest = {key(record): record for record in records if record["label"] in HONEST}
    touched = [f"{cell}" for cell, expected in alone.items() if cell not in honest or honest[cell]["bytes"] != expected]
    found: dict[str, str] = dict.fromkeys(deeds, "left no record")
    cheated = []
    for record in records:
        if record["label"] in found:
            found[record["label"]] = record["reason"] or "; ".join(record["remarks"]) or "ran as Source does"
            best = honest["source", record["cell"]["tasks"][0]]["top1"]
            if record["status"] == "done" and record["top1"] > best:
                cheated.append(record["label"])
    missing = [deed for deed, verdict in found.items() if verdict == "left no record"]
    return Outcome(found, [*missing, *dict.fromkeys(cheated)], len(alone), touched)


def key(record: dict[str, Any]) -> tuple[str, str]:
    return record["label"], record["cell"]["tasks"][0]


def main() -> None:
    """All deeds, one line each."""
    from benchmarks.torture import hostile_methods

    outcome = attack([*(name for name in hostile_methods.DEEDS if name != "none"), "sly"])
    for deed, verdict in outcome.verdicts.items():
        print(f"{deed:<20} {verdict[:150]}")
    print(outcome.to_dict(), outcome.uncontained, outcome.touched)


if __name__ == "__main__":
    main()
