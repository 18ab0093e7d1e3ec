"""Which records of a folder make a table: those that `--where` asks for, and of these one group that is fair.

A folder may hold the records of several commands: whole streams and trials with --limit, several scenarios, batch sizes
and devices. Groups are never mixed. Unless `--where` says otherwise, whole streams come first, and of several groups
the newest; a note names the others and the `--where` that shows them.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tta_bench.errors import UserError, did_you_mean
from tta_bench.notes import Level, Note
from tta_bench.records.live import WAITS
from tta_bench.records.record import Record
from tta_bench.report.comparable import table_of
from tta_bench.report.current import recency
from tta_bench.report.grouping import grouped
from tta_bench.report.rows import Comparison, by_table, compare, counted
from tta_bench.streams.composition import presets_of
from tta_bench.streams.scenarios import SCENARIOS

Filter = tuple[str, str]  # a key of KEYS and a value, as in ("limit", "64")

KEYS: dict[str, Callable[[Record], tuple[str, ...]]] = {
    "scenario": lambda r: _each_once(r.cell.conditions.scenario, r.cell.spec.scenario, *_presets(r)),
    "limit": lambda r: (_limit(r.cell.spec.limit),),
    "batch_size": lambda r: (str(r.cell.spec.batch_size),),
    "model": lambda r: (r.cell.spec.model,),
    "device": lambda r: (r.cell.found.device,),
    "stream_speed": lambda r: _each_once(r.cell.conditions.stream_speed, *_speed(r)),
    "severity": lambda r: (str(r.cell.spec.data.get("severity", WAITS)),),
    "seed": lambda r: (str(r.cell.spec.seed),),
    "method": lambda r: _each_once(r.label, r.cell.spec.method),
    "task": lambda r: r.cell.spec.tasks,
    "suite": lambda r: _each_once(r.cell.spec.suite, table_of(r.cell)),
}


class Group(NamedTuple):
    """Records that may share a table, as far as a command line can tell them apart."""

    filters: dict[str, str]  # the `--where` that shows this group
    limit: int | None
    records: tuple[Record, ...]


def parse(text: str) -> Filter:
    """`key=value` as a filter; an unknown key is a UserError."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise UserError(f"expected KEY=VALUE, as in limit=none, got '{text}'")
    key = key.replace("-", "_")
    if key not in KEYS:
        raise UserError(f"unknown key '{key}'{did_you_mean(key, KEYS)}")
    return key, value


def comparisons(records: Iterable[Record], filters: Sequence[Filter] = ()) -> list[Comparison]:
    """One fair comparison for each table that the matching records make; refuses before anything is written."""
    tables = by_table(matching(list(records), filters))
    if not tables:
        raise UserError("no records to report: run `tta-bench run` first")
    return [_one_group(records) for records in tables.values()]


def comparison(records: Iterable[Record], filters: Sequence[Filter] = ()) -> Comparison:
    """The one comparison that the matching records make."""
    found = comparisons(records, filters)
    if len(found) > 1:
        names = ", ".join(one.suite for one in found)
        raise UserError(f"these records make several tables ({names}): choose one with --where suite=NAME")
    return found[0]


def matching(records: Sequence[Record], filters: Sequence[Filter]) -> list[Record]:
    """Records that match every key; a key given twice means either value. A value that no record has is refused."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for key, value in filters:
        wanted[key].add(value)
    values = {key: [KEYS[key](record) for record in records] for key in wanted}
    if "limit" in wanted:
        values["limit"] = [tuple(map(_limit, limits)) for limits in _limits(records)]
    for key, value in filters:
        known = sorted({there for found in values[key] for there in found})
        if value not in known:
            raise UserError(f"--where {key}={value}: no such record (known: {key}={f', {key}='.join(known)})")
    kept = [
        record for i, record in enumerate(records) if all(not wanted[key].isdisjoint(values[key][i]) for key in wanted)
    ]
    if records and not kept:
        asked = " ".join(f"--where {key}={value}" for key, value in filters)
        raise UserError(f"{asked}: no record matches all of these")
    return kept


def groups(records: Sequence[Record]) -> list[Group]:
    """Records sorted by scenario, limit, batch size, device and stream speed.

    A task with fewer images than a limit is whole under that limit, so its records may be in several groups.
    """
    by_suite = grouped(records, lambda record: record.cell.spec.suite)
    swept = {suite for suite, those in by_suite.items() if len(set(map(_severity, those))) > 1}

    def shared(record: Record) -> tuple[str, int, str, str, str]:
        return (*record.cell.conditions.table, _severity(record) if record.cell.spec.suite in swept else "")

    found = []
    for (scenario, batch_size, device, speed, level), those in grouped(records, shared).items():
        table = {"batch_size": str(batch_size), "device": device, "stream_speed": speed}
        table |= {"severity": level} if level else {}
        by_limit: dict[int | None, list[Record]] = defaultdict(list)
        for record, limits in zip(those, _limits(those), strict=True):
            for limit in limits:
                by_limit[limit].append(record)
        whole = {id(record) for record in by_limit.get(None, [])}
        if any(limit is not None and whole <= {id(record) for record in part} for limit, part in by_limit.items()):
            by_limit.pop(None, None)  # only tasks too short to be cut: they belong to a run with --limit
        found += [
            Group({"scenario": scenario, "limit": _limit(limit), **table}, limit, tuple(part))
            for limit, part in by_limit.items()
        ]
    return found


def _severity(record: Record) -> str:
    return str(record.cell.spec.data.get("severity", ""))


def _limits(records: Sequence[Record]) -> list[tuple[int | None, ...]]:
    """Under which limits each record would have come out as it is; None stands for no limit."""
    conditions = [record.cell.conditions for record in records]
    cut = {(one.limit, one.table, one.key) for one in conditions if one.limit is not None}
    limits = sorted({limit for limit, *_ in cut if limit is not None})
    images = {record.cell.found.stream: record.scores.samples for record in records if record.scores.samples}
    found: list[tuple[int | None, ...]] = []
    for record in records:
        cell, size = record.cell, images.get(record.cell.found.stream)
        if cell.spec.limit is not None or size is None:
            found.append((cell.spec.limit,))
            continue
        where, tasks = (cell.conditions.table, cell.conditions.key), len(set(cell.spec.tasks))
        fits = [limit for limit in limits if size <= limit * tasks and (limit, *where) not in cut]
        found.append((None, *fits))
    return found


def _one_group(records: Sequence[Record]) -> Comparison:
    found = groups(records)
    chosen = max(found, key=lambda group: (group.limit is None, max(map(recency, group.records))))
    made = compare(chosen.records)
    shown = {id(record) for record in chosen.records}
    notes = [_note(group, chosen, sum(id(record) not in shown for record in group.records)) for group in found]
    elsewhere = {
        record.label: _ask(group, chosen) for group in found if group is not chosen for record in group.records
    }
    return replace(made, notes=(*made.notes, *filter(None, notes)), elsewhere=elsewhere)


def _note(other: Group, chosen: Group, count: int) -> Note | None:
    if not count:
        return None
    named = ", ".join(f"{key}={value}" for key, value in _differing(other, chosen).items())
    ask = _ask(other, chosen)
    return Note(Level.LEFT_OUT, f"{counted(count, 'record')} with {named}; show them with `{ask}`.")


def _ask(other: Group, chosen: Group) -> str:
    """The options that show another group than the chosen one."""
    return " ".join(f"--where {shlex.quote(f'{key}={value}')}" for key, value in _differing(other, chosen).items())


def _differing(other: Group, chosen: Group) -> dict[str, str]:
    return {key: value for key, value in other.filters.items() if value != chosen.filters[key]}


def _limit(limit: int | None) -> str:
    return "none" if limit is None else str(limit)


def _speed(record: Record) -> tuple[str, ...]:
    return (f"{record.cell.spec.live.speed:g}",) if record.cell.spec.live and record.cell.spec.live.speed else ()


def _presets(record: Record) -> list[str]:
    """The presets that name a record's composition."""
    name = record.cell.spec.scenario
    return [] if name in SCENARIOS else presets_of(name)


def _each_once(*values: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
