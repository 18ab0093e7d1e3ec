"""Which records of a folder make a table: those asked for with `--where`, and of these one group that is fair.

A folder may hold what several commands left: whole streams and tries with --limit, several scenarios, several batch
sizes. Groups are never mixed. Without a wish the whole streams come first, and of several groups the newest; a note
names the others and how to ask for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tta_bench.errors import UserError, did_you_mean
from tta_bench.records.cell import Cell
from tta_bench.records.record import Record
from tta_bench.report.fair import table_of
from tta_bench.report.rows import Comparison, by_table, compare

Wish = tuple[str, str]  # a key of KEYS and a value, as in ("limit", "64")
Group = tuple[str, str, str]

KEYS: dict[str, Callable[[Record], tuple[str, ...]]] = {
    "scenario": lambda r: (r.cell.scenario,),
    "limit": lambda r: (_limit(r.cell),),
    "batch_size": lambda r: (str(r.cell.batch_size),),
    "model": lambda r: (r.cell.model,),
    "device": lambda r: (r.cell.device,),
    "seed": lambda r: (str(r.cell.seed),),
    "method": lambda r: tuple(dict.fromkeys((r.label, r.cell.method))),
    "task": lambda r: r.cell.tasks,
    "suite": lambda r: tuple(dict.fromkeys((r.cell.suite, table_of(r.cell)))),
}
GROUP = ("scenario", "limit", "batch_size")


def parse(text: str) -> Wish:
    """`key=value` as a wish; a key that is not known is a UserError."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise UserError(f"expected KEY=VALUE, as in limit=none, got '{text}'")
    key = key.replace("-", "_")
    if key not in KEYS:
        raise UserError(f"unknown key '{key}'{did_you_mean(key, KEYS)}")
    return key, value


def comparisons(records: Iterable[Record], wishes: Sequence[Wish] = ()) -> list[Comparison]:
    """One fair comparison per table that the wished-for records make; refuses before anything is written."""
    tables = by_table(wished(list(records), wishes))
    if not tables:
        raise UserError("no records to report: run `tta-bench run` first")
    return [_one_group(records) for records in tables.values()]


def comparison(records: Iterable[Record], wishes: Sequence[Wish] = ()) -> Comparison:
    """The one comparison that the wished-for records make."""
    found = comparisons(records, wishes)
    if len(found) > 1:
        names = ", ".join(one.suite for one in found)
        raise UserError(f"these records make several tables ({names}): choose one with --where suite=NAME")
    return found[0]


def wished(records: Sequence[Record], wishes: Sequence[Wish]) -> list[Record]:
    """Records that fit every key; a key given twice means either value. A wish that nothing fits is refused."""
    wanted: dict[str, list[str]] = defaultdict(list)
    for key, value in wishes:
        known = list(dict.fromkeys(there for record in records for there in KEYS[key](record)))
        if value not in known:
            raise UserError(f"--where {key}={value}: no such record; there is {key}={f', {key}='.join(known)}")
        wanted[key].append(value)
    found = [r for r in records if all(set(KEYS[key](r)) & set(values) for key, values in wanted.items())]
    if records and not found:
        told = " ".join(f"--where {key}={value}" for key, value in wishes)
        raise UserError(f"{told}: no record fits all of these")
    return found


def _one_group(records: Sequence[Record]) -> Comparison:
    groups: dict[Group, list[Record]] = defaultdict(list)
    for record in records:
        groups[_group(record)].append(record)
    chosen = max(groups.values(), key=lambda those: (_whole(those), max(record.finished_at for record in those)))
    found = compare(chosen)
    others = [those for those in groups.values() if those is not chosen]
    return replace(found, notes=(*found.notes, *(_note(those[0], chosen[0], len(those)) for those in others)))


def _note(other: Record, chosen: Record, count: int) -> str:
    pairs = zip(GROUP, _group(other), _group(chosen), strict=True)
    differing = [f"{key}={value}" for key, value, shown in pairs if value != shown]
    many = f"{count} record" if count == 1 else f"{count} records"
    ask = " ".join(f"--where {wish}" for wish in differing)
    return f"Left out, not comparable: {many} with {', '.join(differing)}; show them with `{ask}`."


def _group(record: Record) -> Group:
    scenario, limit, batch_size = (KEYS[key](record)[0] for key in GROUP)
    return scenario, limit, batch_size


def _whole(records: Sequence[Record]) -> bool:
    return records[0].cell.limit is None


def _limit(cell: Cell) -> str:
    return "none" if cell.limit is None else str(cell.limit)
