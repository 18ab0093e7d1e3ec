"""Mutates real records, manifests, commands, predictions, suites and timing files, and reads them.

    python -m benchmarks.torture.fuzz 3000 0

A mutation is `bytes` (a flipped bit, a cut, a repeated piece) or `content`: a value replaced by a nasty one, with fresh
digests, as somebody who means harm would write it. What is expected: a UserError of one line, or, where a change means
nothing, the same numbers. Anything else is an error or a change that was accepted silently.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
from hypothesis.strategies import randoms
from rich.console import Console

from benchmarks.torture.mutations import mutate_bytes, mutate_content, mutate_text, spoiled_json
from tests.support.records import keep, make_failure, make_record
from tta_bench.errors import UserError
from tta_bench.files import write_whole
from tta_bench.measure import baseline
from tta_bench.records.store import Store
from tta_bench.report import differences
from tta_bench.report.choose import comparisons
from tta_bench.report.frames import frame
from tta_bench.report.runs import Runs
from tta_bench.report.write import FORMATS, report_runs
from tta_bench.suites import suite as suites
from tta_bench.verify.folders import verify

ROOT = Path(__file__).parents[2]


@dataclass
class Figures:
    """What came of some mutations."""

    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)  # accepted, with the numbers of the original
    tracebacks: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)  # silently, with other numbers
    outside: list[str] = field(default_factory=list)  # files written where none belong

    @property
    def is_clean(self) -> bool:
        return not (self.tracebacks or self.accepted or self.outside)

    def to_dict(self) -> dict[str, Any]:
        return {
            "tried": sum(self.tried.values()),
            "by kind": dict(self.tried),
            "refused": sum(self.refused.values()),
            "same numbers": sum(self.same.values()),
            "tracebacks": len(self.tracebacks),
            "silently accepted": len(self.accepted),
            "written outside": len(self.outside),
            "first problems": [*self.tracebacks, *self.accepted, *self.outside][:5],
        }


def run(count: int, seed: int = 0) -> dict[str, Any]:
    """Try `count` mutations that hypothesis draws; returns figures."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place))

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(random=randoms(use_true_random=False))
        def attack(random: Random) -> None:
            bench.attack(random, figures)

        attack()
    return figures.to_dict()


class Bench:
    """A small run folder, and ways to spoil it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place / "run"
        store = Store.create(self.folder, "s")
        for task, share in (("fog", 0.5), ("snow", 0.6)):
            keep(store, make_record("source", share, task=task))
            keep(store, make_record("tent", share + 0.1, task=task, settings={"lr": 0.1, "steps": [1, 2]}))
        keep(store, make_record("tent", 0.5, tasks=("fog", "snow"), scenario="mixed"))
        keep(store, make_failure("sar", "out of memory", task="fog"))
        store.note_command(["tta-bench", "run"], ["fog", "snow"], ["source", "tent"])
        store.note_warnings({"w": "These weights are odd"})
        self.store = store
        self.numbers = self._numbers()
        self.before = self._tree()
        self.yaml = (ROOT / "tta_bench/suites/digit-pairs-c.yaml").read_text()
        self.timing = (ROOT / "benchmarks/timing.json").read_bytes()

    def attack(self, random: Random, figures: Figures) -> None:
        """One mutation of one file."""
        attacks: list[tuple[str, Callable[[Random], tuple[str, Callable[[], object], bool]]]] = [
            ("record bytes", self._record_bytes),
            ("record content", self._record_content),
            ("record content", self._record_content),
            ("predictions bytes", self._npy_bytes),
            ("predictions content", self._npy_content),
            ("manifest", self._manifest),
            ("command", self._command),
            ("suite", self._suite),
            ("timing", self._timing),
        ]
        kind, spoil = random.choice(attacks)
        what, read, must_keep = spoil(random)
        figures.tried[kind] += 1
        try:
            found = read()
        except UserError as error:
            figures.refused[kind] += 1
            if "\n" in str(error).strip() or len(str(error)) > 3000:
                figures.tracebacks.append(f"{kind}: {what}: a message of many lines: {str(error)[:300]!r}")
        except Exception:
            last = traceback.format_exc().strip().splitlines()
            figures.tracebacks.append(f"{kind}: {what}: {last[-1]} at {' '.join(last[-3].split())}")
        else:
            if must_keep and found != self.numbers:
                figures.accepted.append(f"{kind}: {what}")
            else:
                figures.same[kind] += 1
        finally:
            self._restore(figures, f"{kind}: {what}")

    # -- what to spoil: each returns a description, a way to read it, and whether the numbers must stay the same

    def _record_bytes(self, random: Random) -> tuple[str, Callable[[], object], bool]:
        path = random.choice(self.store.record_files())
        return self._put_bytes(path, random)

    def _npy_bytes(self, random: Random) -> tuple[str, Callable[[], object], bool]:
        path = random.choice(sorted(self.store.cells.glob("*.npy")))
        return self._put_bytes(path, random)

    def _put_bytes(self, path: Path, random: Random) -> tuple[str, Callable[[], object], bool]:
        content = path.read_bytes()
        changed = mutate_bytes(content, random)
        write_whole(path, changed)
        return f"{path.name}, other bytes", self._numbers, True

    def _record_content(self, random: Random) -> tuple[str, Callable[[], object], bool]:
        path = random.choice(self.store.record_files())
        content = json.loads(path.read_bytes())
        what = mutate_content(content, random)
        self._sign(path, content)
        return f"{path.name}, {what}", self._everything, False

    def _npy_content(self, random: Random) -> tuple[str, Callable[[], object], bool]:
        path = random.choice(sorted(self.store.cells.glob("*.npy")))
        raw = mutate_bytes(path.read_bytes(), random)
        write_whole(path, raw)
        record = path.with_suffix(".json")
        content = json.loads(record.read_bytes())
        content["predictions"] = hashlib.sha256(raw).hexdigest()
        self._sign(record, content)
        return f"{path.name}, other bytes with fresh digests", self._everything, False

    def _manifest(self, random: Random) -> tuple[str, Callable[[], object], bool]:
        return self._spoil_json(self.store.manifest, random)

    def _command(self, random: Random) -> tuple[str, Callable[[], object], bool]:
        return self._spoil_json(next(self.store.commands.glob("*.json")), random)

    def _spoil_json(self, path: Path, random: Random) -> tuple[str, Callable[[], object], bool]:
        raw = spoiled_json(path.read_bytes(), random)
        write_whole(path, raw)
        return f"{path.name}, {raw[:60]!r}", self._everything, True

    def _suite(self, random: Random) -> tuple[str, Callable[[], object], bool]:
        path = self.place / "mine.yaml"
        text = mutate_text(self.yaml, random)
        path.write_bytes(text)
        return f"{text[:60]!r}", lambda: suites.load(str(path)), False

    def _timing(self, random: Random) -> tuple[str, Callable[[], object], bool]:
        path = self.place / "timing.json"
        path.write_bytes(spoiled_json(self.timing, random))
        return "timing file", lambda: baseline.read(path), False

    # -- what to do with it

    def _everything(self) -> object:
        """All that reads a stranger's folder: reports in every format, differences, frames, verification."""
        verify([self.folder])
        runs = Runs([self.folder])
        found = comparisons(runs.records)
        screen = Console(file=io.StringIO(), width=120, highlight=False, markup=False, emoji=False)
        report_runs(found, runs, self.store.report, screen, FORMATS)
        for comparison in found:
            if len(comparison.rows) > 1:
                made = differences.difference(comparison, comparison.rows[0].label, comparison.rows[1].label, runs)
                differences.table(made, comparison.suite)
        return self._numbers()

    def _numbers(self) -> object:
        table = frame(self.folder)
        kept = table[["task", "seed", "method", "plugin", "scenario", "accuracy", "top5", "ece", "status"]]
        return sorted(map(repr, kept.itertuples(index=False)))

    def _sign(self, path: Path, content: dict[str, Any]) -> None:
        """Write a record with fresh key, digest and file name, whatever it holds."""
        content.pop("digest", None)
        if isinstance(content.get("cell"), dict):
            cell = content["cell"]
            content["key"] = key = hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()
            tasks = cell.get("tasks")
            several = isinstance(tasks, list) and len(set(map(str, tasks))) != 1
            name = cell.get("scenario") if several or not tasks else tasks[0] if isinstance(tasks, list) else tasks
            slug = f"{cell.get('method')}--{name}--seed{cell.get('seed')}--{key[:12]}"
            target = path.with_name(slug.replace("/", "-").replace("\0", "-")[:200] + ".json")
            if target != path and target.name.isprintable():
                path.rename(target)
                npy = path.with_suffix(".npy")
                if npy.exists():
                    npy.rename(target.with_suffix(".npy"))
                path = target
        body = (json.dumps(content, indent=1).removesuffix("\n}") + ",\n ").encode()
        write_whole(path, body + f'"digest": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode())

    def _tree(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted(self.place.rglob("*")) if path.is_file()}

    def _restore(self, figures: Figures, what: str) -> None:
        for path, content in self._tree().items():
            inside = path.is_relative_to(self.folder)
            if path not in self.before:
                if not inside and path.name not in ("mine.yaml", "timing.json"):
                    figures.outside.append(f"{what}: {path}")
                path.unlink()
            elif content != self.before[path]:
                write_whole(path, self.before[path])
        for path, content in self.before.items():
            if not path.exists():
                write_whole(path, content)


if __name__ == "__main__":
    count, seed = (int(word) for word in [*sys.argv[1:], "1000", "0"][:2])
    print(json.dumps(run(count, seed), indent=1))
