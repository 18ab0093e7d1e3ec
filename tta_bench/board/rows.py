"""Rules about the rows of a submission: complete, with the suite's model, and with declared settings."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tta_bench import notes, plugins
from tta_bench.board.review import Review
from tta_bench.board.submission import DEFAULTS, Entry
from tta_bench.checked.options import part
from tta_bench.errors import UserError, some
from tta_bench.models.names import findable
from tta_bench.papers.baseline import BASELINE
from tta_bench.records.asked import Asked
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.report.grouping import grouped
from tta_bench.runs.spec import BY_TASK
from tta_bench.static_facts import published_settings
from tta_bench.streams.scenarios import Scenario, scenario_of
from tta_bench.suites import suite as suites
from tta_bench.suites.suite import Suite

SEEDS = (0, 1, 2)
MANY = 30_000  # images: where the suite's seeds show as many, they suffice
LABEL = re.compile(r"[\w.()=, +-]{1,100}")
RUN = "tta-bench run --suite {suite} --methods {methods} --seeds 0,1,2"


def check_rows(records: Sequence[Record], review: Review) -> dict[str, list[Record]]:
    """The records of each row; notes rows that a table could not show."""
    rows = grouped(records, lambda record: record.label)
    for label, found in rows.items():
        if not LABEL.fullmatch(label):
            review.refuse("rows", f"label {label!r}", "use letters, digits, spaces and `.()=,+-` in labels")
        methods = sorted({record.cell.spec.method for record in found})
        if len(methods) > 1:
            review.refuse("rows", f"row {label} mixes methods: {', '.join(methods)}", "give each a label of its own")
        if failed := [record for record in found if record.status != "done"]:
            review.refuse("rows", f"{failed[0].cell.slug} failed", "run the same command again, then pack again")
    if BASELINE not in {record.cell.spec.method for record in records}:
        review.refuse("rows", "there is no Source", f"run `--methods {BASELINE}` into the same folder, and pack again")
    if all(record.cell.spec.method == BASELINE for record in records):
        review.refuse("rows", "there is no row but Source", "run your method into the same folder, and pack again")
    return rows


def check_complete(rows: Mapping[str, list[Record]], suite: Suite, review: Review) -> None:
    """Whether every row has every task with every seed once, whole and in the suite's scenario."""
    scenario = scenario_of(suite.scenario or "normal")
    for label, records in rows.items():
        odd = [record for record in records if not _is_whole(record, scenario)]
        whole = [record for record in records if record not in odd]
        found = Counter((task, record.cell.spec.seed) for record in whole for task in record.cell.spec.tasks)
        wanted = {(task, seed) for task in suite.tasks for seed in _seeds(whole, suite)}
        again = "run `" + RUN.format(suite=suite.name, methods=records[0].cell.spec.method) + "` and pack that folder"
        if odd:
            review.refuse("complete", f"{odd[0].cell.slug} is a part of a stream or of another scenario", again)
        if missing := sorted(wanted - found.keys()):
            review.refuse("complete", f"row {label} lacks {_named(missing)}", again)
        if extra := sorted(found.keys() - wanted):
            review.refuse("complete", f"row {label} has {_named(extra)}, which the board does not score", again)
        if twice := sorted(key for key, count in found.items() if count > 1):
            review.refuse("complete", f"row {label} has several results for {_named(twice)}", again)
    if few := [label for label, records in rows.items() if len({record.cell.spec.seed for record in records}) == 1]:
        review.notes.append(f"one seed only: {', '.join(few)}")


def _seeds(records: Sequence[Record], suite: Suite) -> set[int]:
    """The seeds that a row needs: 0, 1 and 2, or the suite's alone if these show many images."""
    is_own = {record.cell.spec.seed for record in records} == {*suite.seeds}
    longest = max((record.scores.samples / len(record.cell.spec.tasks) for record in records), default=0)
    is_many = longest * len(suite.tasks) * len(suite.seeds) >= MANY  # also if some tasks are missing
    return {*suite.seeds} if is_own and is_many else {*SEEDS, *suite.seeds}


def _is_whole(record: Record, scenario: Scenario) -> bool:
    spec = record.cell.spec
    is_same = spec.scenario == scenario.name and dict(spec.scenario_settings) == scenario.settings
    return record.reportable and is_same and spec.live is None


def _named(cells: Sequence[tuple[str, int]]) -> str:
    return some([f"{task} with seed {seed}" for task, seed in cells])


def check_division(entry: Entry, records: Sequence[Record], suite: Suite, review: Review) -> None:
    """In the closed division model, batch size and precision are the suite's."""
    if entry.division != "closed":
        return
    plain = {name: value for name, value in part(Asked, Asked()).items() if name != "limit"}
    expected: dict[str, Any] = {"batch_size": suite.batch_size, **plain}
    if suite.model != BY_TASK:
        expected["model"] = findable(suite.model)
    remedy = f"run without these options, or submit to the open division: `division: open` ({suite.name})"
    seen = set()
    for record in records:
        for name, right in expected.items():
            own = getattr(record.cell.spec, name)
            if own != right and (record.label, name) not in seen:
                seen.add((record.label, name))
                review.refuse("division", f"row {record.label}: {name} is {own}, the suite's is {right}", remedy)


def check_settings(entry: Entry, rows: Mapping[str, list[Record]], suite: Suite, review: Review) -> None:
    """Each row has one choice of settings, which submission.yaml or the suite names."""
    for label in entry.settings.keys() - rows.keys():
        review.refuse("settings", f"settings: there is no row '{label}'", f"the rows are {', '.join(rows)}")
    for label, records in rows.items():
        own = records[0].cell.own_settings
        if any(record.cell.own_settings != own for record in records):
            review.refuse(
                "settings", f"row {label} has other settings for some tasks or seeds", "use one choice for all"
            )
        elif complaint := _settings_complaint(entry, label, records[0], suite):
            review.refuse("settings", *complaint)


def _settings_complaint(entry: Entry, label: str, record: Record, suite: Suite) -> tuple[str, str] | None:
    """What is wrong with a row's settings, and how to fix it."""
    own, method = record.cell.own_settings, record.cell.spec.method
    ruled = {name: dict(given) for name, given in {**suite.methods, **suite.other_methods}.items()}
    rules = [given for name, given in ruled.items() if given.pop("method", name) == method]
    keeps_rule = any(_follows(own, method, given) for given in rules)
    declared = entry.settings.get(label)
    if entry.division == "closed" and rules and not keeps_rule:
        shown = json.dumps(rules[0])
        why = f"row {label}: its settings are {json.dumps(own)}, the suite's for {method} are {shown}"
        return why, "run with the suite's settings, or submit to the open division: `division: open`"
    if declared is not None and declared != own:
        return f"row {label}: declared {json.dumps(declared)}, but it ran with {json.dumps(own)}", _declare(label, own)
    if declared is None and not keeps_rule and own:
        return f"row {label}: its settings are not declared", _declare(label, own)
    return None


def _declare(label: str, own: Mapping[str, Any]) -> str:
    return f"put this into submission.yaml: `settings: {json.dumps({label: own})}`"


def _follows(own: Mapping[str, Any], method: str, given: Mapping[str, Any]) -> bool:
    """Whether settings are these, and the method's defaults otherwise."""
    base = published_settings(method)
    return all(own.get(key) == value for key, value in given.items()) and all(
        own[key] == base[key] for key in own.keys() & base.keys() - given.keys()
    )


def check_package(entry: Entry, records: Sequence[Record], review: Review) -> None:
    """`built-in` is for tta-bench's own methods; another package must not use their names."""
    group = plugins.group("method")
    for method in sorted({record.cell.spec.method for record in records} - {BASELINE}):
        is_own = group.owner(method) == plugins.OWN
        if entry.package == "built-in" and not is_own:
            review.refuse("package", f"{method} is not built in", "name the package that provides it under `package:`")
        if entry.package != "built-in" and is_own:
            review.refuse("package", f"{method} is the name of a built-in method", "use a name of your own for yours")


def check_chosen(entry: Entry, store: Store, rows: Mapping[str, list[Record]], suite: Suite, review: Review) -> None:
    """Refuse settings that were chosen on what is scored."""
    remedy = "choose settings on held-out data (`tta-bench tune --suite …-holdout`), run again and pack again"
    for name in entry.chosen_on:
        if shared := _scored(name, suite):
            review.refuse("chosen", f"chosen_on: {name} has {some(shared)}, which the board scores", remedy)
    for command in store.past_commands():
        for label, sentence in command.chosen.items():
            if label in rows and notes.read(sentence).is_loud:
                review.refuse("chosen", f"the run says: {sentence}", remedy)
    if DEFAULTS in entry.chosen_on:
        for label, records in rows.items():
            own, base = records[0].cell.own_settings, published_settings(records[0].cell.spec.method)
            changed = [key for key in sorted(own.keys() & base.keys()) if own[key] != base[key]]
            if changed:
                text = f"chosen_on: {DEFAULTS}, but row {label} has another {', '.join(changed)}"
                review.refuse("chosen", text, "name the data that these were chosen on")


def _scored(name: str, suite: Suite) -> list[str]:
    """The scored tasks that data of this name have: a suite, or words that name a suite or a task."""
    try:
        other = suites.load(name) if name in suites.names() else None
    except UserError:
        other = None
    if other is not None:
        shared = [task for task in suite.tasks if task in other.tasks]
        return shared if other.data.get("kind") == suite.data.get("kind") else []
    words = set(re.findall(r"[\w.-]*\w", name))
    return [word for word in (suite.name, *suite.tasks) if word in words]
