"""Settings that `tta-bench tune` chose: a YAML file with what was tried on which data. `run --settings` takes it.

tent:
  settings: {lr: 0.03}
  suite: digits-c-holdout
  tasks: [speckle_noise, …]
  …
  tried: [{settings: {lr: 0.01}, accuracy: 60.1}, …]      best first; null for a failed run
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from tta_bench.checked import parse, validate
from tta_bench.errors import UserError
from tta_bench.files import write_whole
from tta_bench.notes import warning
from tta_bench.suites.suite import Suite

ACCURACY = "accuracy"
CONDITIONS = ("suite", "data", "tasks", "seeds", "model", "limit", "criterion")  # fields that say how was searched
HEAD = "# Written by `tta-bench tune`; `tta-bench run --settings FILE` uses these settings and reports say so.\n"


@dataclass(frozen=True)
class Trial:
    """One combination of settings."""

    settings: dict[str, Any]
    accuracy: float | None  # in percent, the average over tasks and seeds; none if a cell failed
    score: float | None = None  # of another criterion than accuracy; higher is better


@dataclass(frozen=True)
class Tuned:
    """The settings chosen for one method, and how."""

    settings: dict[str, Any]
    suite: str
    data: dict[str, Any]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    model: str
    limit: int | None
    accuracy: float
    tried: tuple[Trial, ...]
    criterion: str = ACCURACY
    by_hand: dict[str, Any] = field(default_factory=dict)  # part of the settings, given by `--set` and not searched

    @property
    def conditions(self) -> tuple[object, ...]:
        """What two searches must share for their trials to be compared."""
        return tuple(getattr(self, name) for name in CONDITIONS)

    def sentence(self, label: str, suite: Suite, tasks: Sequence[str]) -> str:
        """How a table says where a row's settings come from."""
        seeds = f"seed{'s' if len(self.seeds) > 1 else ''} {', '.join(map(str, self.seeds))}"
        part = f", {self.limit} images per task" if self.limit is not None else ""
        where = f"{self.suite} ({', '.join(self.tasks)}; {seeds}{part})"
        by = "" if self.criterion == ACCURACY else f" by {self.criterion}"
        searched = ", ".join(key for key in self.settings if key not in self.by_hand) if self.by_hand else "settings"
        how = f"{label}: {searched} chosen on {where}{by}, the best of {len(self.tried)}."
        if self.by_hand:
            how += f" Set by hand: {', '.join(f'{key}={value}' for key, value in self.by_hand.items())}."
        shared = [task for task in tasks if task in self.tasks and self.data.get("kind") == suite.data.get("kind")]
        return str(warning(f"{how} This table scores {', '.join(shared)} too.")) if shared else how


def choose(tried: Sequence[Trial], criterion: str = ACCURACY, **conditions: Any) -> Tuned:
    """The best of what was tried, by accuracy or by the trials' scores; UserError if everything failed."""

    def rank(trial: Trial) -> float:
        value = trial.accuracy if criterion == ACCURACY else trial.score
        return -math.inf if value is None else value

    ranked = sorted(tried, key=rank, reverse=True)
    best = ranked[0]
    if best.accuracy is None:
        raise UserError("every combination of settings failed, so none was chosen")
    return Tuned(settings=best.settings, accuracy=best.accuracy, tried=tuple(ranked), criterion=criterion, **conditions)


def at_edges(found: Tuned) -> list[str]:
    """Chosen numbers beyond which nothing was tried, as `lr=0.3`: the best may lie there."""
    edges = []
    for key, value in found.settings.items():
        tried = {trial.settings[key] for trial in found.tried if _is_number(trial.settings.get(key))}
        if _is_number(value) and len(tried) > 1 and value in (min(tried), max(tried)):
            edges.append(f"{key}={value}")
    return edges


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read(file: Path) -> dict[str, Tuned]:
    """The chosen settings by method; UserError with the place of anything wrong."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--settings {file} cannot be read: {error}") from error
    content = parse.from_yaml(text, str(file))
    if not isinstance(content, Mapping) or not content:
        raise UserError(f"{file}: expected methods with their settings, as `tta-bench tune` writes them")
    return {method: validate.read(Tuned, entry, f"{file}: {method}") for method, entry in content.items()}


def add(file: Path, method: str, found: Tuned) -> Tuned:
    """Write a choice into a file, beside those of other methods; trials of the same conditions are joined."""
    import yaml

    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_name(f".{file.name}.lock")):
        known = read(file) if file.exists() else {}
        before = known.get(method)
        if before is not None and before.conditions == found.conditions:
            new = [trial.settings for trial in found.tried]
            older = [trial for trial in before.tried if trial.settings not in new]
            found = choose([*found.tried, *older], **{n: getattr(found, n) for n in (*CONDITIONS, "by_hand")})
        content = {name: _plain(entry) for name, entry in {**known, method: found}.items()}
        text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)
        write_whole(file, (HEAD + text).encode())
    return found


def _plain(found: Tuned) -> dict[str, Any]:
    return {
        **asdict(found),
        "tasks": list(found.tasks),
        "seeds": list(found.seeds),
        "tried": [
            {key: value for key, value in asdict(trial).items() if key != "score" or value is not None}
            for trial in found.tried
        ],
    }
