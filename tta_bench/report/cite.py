"""What to write about a run: BibTeX of everything in it, and a paragraph on how it was made. Reads records only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from tta_bench.errors import UserError, some
from tta_bench.records.cell import Cell
from tta_bench.report import bibtex, latex
from tta_bench.report.bibtex import Entry
from tta_bench.report.comparable import shipped_suite
from tta_bench.report.grouping import grouped
from tta_bench.report.rows import Comparison, Row, setting
from tta_bench.report.runs import Runs
from tta_bench.static_facts import published_settings
from tta_bench.streams.scenarios import protocol
from tta_bench.suites.suite import Suite

POINTS = {
    "pre-update": "before the update that follows from it",
    "perturbed": "at the perturbed weights of the update",
    "post-update": "after the update that follows from it",
}


@dataclass(frozen=True)
class Cite:
    """A place in a sentence at which these entries are cited."""

    keys: tuple[str, ...]


Piece = str | Cite


@dataclass(frozen=True)
class Citation:
    """BibTeX entries, and paragraphs that cite them."""

    entries: tuple[Entry, ...]
    paragraphs: tuple[tuple[Piece, ...], ...]
    unknown: tuple[str, ...]  # what has no entry
    left_out: tuple[str, ...]  # rows without a finished cell

    def bib(self) -> str:
        """The content of a .bib file."""
        return "\n\n".join(entry.text for entry in self.entries) + "\n"

    def markdown(self) -> str:
        return self._text(lambda text: text, lambda keys: "[" + "; ".join(f"@{key}" for key in keys) + "]")

    def latex(self) -> str:
        return self._text(_escaped, lambda keys: f"~\\cite{{{','.join(keys)}}}")

    def _text(self, plain: Callable[[str], str], cite: Callable[[Sequence[str]], str]) -> str:
        paragraphs = []
        for pieces in self.paragraphs:
            parts = [cite(piece.keys) if isinstance(piece, Cite) else plain(piece) for piece in pieces]
            paragraphs.append("".join(parts).replace(" ~", "~"))
        return "\n\n".join(paragraphs) + "\n"


def citation(comparisons: Sequence[Comparison], runs: Runs) -> Citation:
    """What to cite and to write about these tables; they must agree on whatever a sentence says once."""
    writer = _Writer()
    paragraphs = [writer.paragraph(comparison, runs) for comparison in comparisons]
    left_out = tuple(row.label for comparison in comparisons for row in comparison.rows if not row.done)
    return Citation(tuple(writer.entries.values()), tuple(map(tuple, paragraphs)), tuple(writer.unknown), left_out)


class _Writer:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.unknown: dict[str, None] = {}

    def paragraph(self, comparison: Comparison, runs: Runs) -> list[Piece]:
        rows = [row for row in comparison.rows if row.done]
        if not rows:
            raise UserError(f"{comparison.suite}: no finished cell to write about: run the same command again")
        cell, suite = rows[0].first.cell, comparison.suite
        version = str(rows[0].first.measured.environment.get("tta_bench") or cell.found.harness.partition("+")[0])
        return [
            f"We compare on {suite} with tta-bench {version} ",
            self._cite(bibtex.of_harness(version), "tta-bench"),
            ". ",
            *self._data(cell, comparison),
            *self._model(cell),
            _order(cell, rows),
            *self._methods(rows),
            _points(rows),
            _settings(rows, runs),
            _source(rows),
            _machine(rows),
        ]

    def _cite(self, found: Iterable[Entry], what: str) -> Piece:
        known = {entry.key: entry for entry in found}
        self.entries |= {key: entry for key, entry in known.items() if key not in self.entries}
        if not known:
            self.unknown[what] = None
        return Cite(tuple(known)) if known else "(no BibTeX entry)"

    def _data(self, cell: Cell, comparison: Comparison) -> list[Piece]:
        options = [f"{key} {value}" for key, value in cell.spec.data.items() if key != "kind"]
        made = [f"images made by {cell.data['made_by']}"] if cell.data.get("made_by") else []
        limit = [f"only {comparison.limit:,} images of each task"] if comparison.limit is not None else []
        kind = str(cell.spec.data.get("kind"))
        about = ", ".join([*options, *made, *limit])
        tasks = len(comparison.tasks)
        head = f"Data: {kind}{about and f' ({about})'} "
        scored = f", {tasks} task{'s' if tasks > 1 else ''}: {some([_words(t) for t in comparison.tasks], 20)}. "
        return [head, self._cite(bibtex.of_data(cell), f"data '{kind}'"), scored]

    def _model(self, cell: Cell) -> list[Piece]:
        is_own = bibtex.is_included(cell.spec.model)
        own = [entry for entry in self.entries.values() if is_own and entry.key == bibtex.HARNESS]
        mean, std = ("/".join(f"{value:g}" for value in values) for values in (cell.found.mean, cell.found.std))
        after = (
            f", the same weights for every method (hash {cell.found.weights}); images normalised with mean {mean} and "
            f"standard deviation {std}. "
        )
        return [
            f"Source model: {cell.spec.model} ",
            self._cite(bibtex.of_model(cell.spec.model) or own, f"model '{cell.spec.model}'"),
            after,
        ]

    def _methods(self, rows: Sequence[Row]) -> list[Piece]:
        pieces: list[Piece] = ["Methods: "]
        for place, row in enumerate(rows):
            method = row.first.cell.spec.method
            is_plain = row.label == method or row.label.startswith(f"{method} (")
            name = row.label if is_plain else f"{row.label} (a setting of {method})"
            cited = [] if row.is_source else [" ", self._cite(bibtex.of_method(method), f"method '{method}'")]
            pieces += [f"{', ' if place else ''}{name}{', no adaptation' if row.is_source else ''}", *cited]
        return [*pieces, ". "]


def _order(cell: Cell, rows: Sequence[Row]) -> str:
    scenario = protocol(cell.spec)
    seeds = sorted({record.cell.spec.seed for row in rows for record in row.records})
    resets = "weights are never reset between tasks" if scenario.joins_tasks else "every task starts from the source"
    live = cell.spec.live
    speed = f" The stream does not wait: speed {live.speed:g}, clock {live.clock}." if live and live.speed else ""
    return (
        f"Order: scenario {scenario.label}: {scenario.about}; {resets}. Seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))} fix{'' if len(seeds) > 1 else 'es'} the order of images, which is the same for "
        f"every method; records hold its digest. Batches of {cell.spec.batch_size}, one pass.{speed} "
    )


def _points(rows: Sequence[Row]) -> str:
    by_point = grouped(rows, lambda row: row.first.measured.score_point)
    said = [f"{POINTS.get(at, at)} ({', '.join(row.label for row in those)})" for at, those in by_point.items()]
    return f"A batch is scored with the logits that the method returns for it, computed {'; '.join(said)}. "


def _settings(rows: Sequence[Row], runs: Runs) -> str:
    changed = {row.label: _changed(row.first.cell) for row in rows}
    differ = [f"{label}: {', '.join(starmap(setting, own.items()))}" for label, own in changed.items() if own]
    if not differ:
        return "All settings are the published defaults. "
    chosen = {str(note).rstrip(".") for note in runs.chosen()}
    suite = shipped_suite(rows[0].first.cell)
    own = [label for label, own in changed.items() if own]
    by_suite = [label for label in own if suite and suite.settings(label) and _follows(changed[label], suite, label)]
    silent = [label for label in own if label not in by_suite and not any(text.startswith(label) for text in chosen)]
    how = [*sorted(chosen)]
    if by_suite and suite and suite.notes:
        how.append(f"{', '.join(by_suite)}: the suite's settings. {' '.join(suite.notes.split()).rstrip('.')}")
    elif by_suite:
        silent += by_suite
    how += [f"How those of {', '.join(silent)} were chosen is not recorded"] if silent else []
    return (
        f"Settings that are not the published defaults: {'; '.join(differ)}. All others are the published defaults. "
        f"{'. '.join(how)}. "
    )


def _follows(own: Mapping[str, Any], suite: Suite, label: str) -> bool:
    """Whether a row has just the settings that its suite gives it."""
    return own == {key: value for key, value in suite.settings(label).items() if key in own}


def _changed(cell: Cell) -> dict[str, Any]:
    base = published_settings(cell.spec.method)
    unlike = object()
    own = cell.own_settings.items()
    return {key: value for key, value in own if value != base.get(key, None if value is None else unlike)}


def _source(rows: Sequence[Row]) -> str:
    learned = [row.label for row in rows if row.first.measured.needs_source]
    return f"Source images were used before the stream by {', '.join(learned)}. " if learned else ""


def _machine(rows: Sequence[Row]) -> str:
    machines: Mapping[str, None] = dict.fromkeys(
        _where(record.measured.environment) for row in rows for record in row.done
    )
    return (
        f"Run on {some(list(machines), 3, '; ')}. Times cover adaptation alone, without loading and scoring; "
        "accuracies are computed from stored predictions."
    )


def _where(about: Mapping[str, Any]) -> str:
    threads = f", {about['threads']} thread{'s' if about['threads'] != 1 else ''}" if about.get("threads") else ""
    torch = f", torch {about['packages']['torch']}" if "torch" in about.get("packages", {}) else ""
    commit = f", commit {about['commit']}" if about.get("commit") else ""
    return f"{about.get('device_name', 'an unknown machine')}{threads}{torch}, Python {about.get('python')}{commit}"


def _escaped(text: str) -> str:
    """LaTeX of a part of a sentence, with the blanks at its ends."""
    return re.sub(r"\S(.*\S)?", lambda found: latex.escape(found[0]), text, flags=re.DOTALL)


def _words(task: str) -> str:
    return task.replace("_", " ")
