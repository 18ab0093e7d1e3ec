"""Which of several versions of a result counts: that of the code installed here, else the newest.

A clock that was set ahead must not make an old result win. So the code decides first, and a time that is still to come
counts as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from functools import cache

from tta_bench import plugins
from tta_bench.errors import UserError
from tta_bench.identity.code import code_hash, harness_hash
from tta_bench.records.cell import Cell
from tta_bench.records.record import Record

SKEW = timedelta(hours=1)  # by which the clocks of a cluster may differ


def recency(record: Record) -> str:
    """When a record was finished, to be compared as text; empty if that is not known or still to come."""
    return "" if is_ahead(record) else record.finished_at


def is_ahead(record: Record) -> bool:
    """Whether a record says that it was finished in the future: the clock of its machine was wrong."""
    return record.finished_at > (datetime.now(timezone.utc) + SKEW).isoformat(timespec="seconds")


def newest_method(records: Sequence[Record]) -> Record:
    """Of records of one method, one whose code and harness count; of equals the last."""
    return max(reversed(records), key=lambda record: (_is_installed(record.cell), recency(record)))


def newest_data(records: Sequence[Record]) -> Record:
    """Of records on one task, one whose images and weights count; of equals the last."""
    return max(reversed(records), key=lambda record: (_has_installed_data(record.cell), recency(record)))


def _is_installed(cell: Cell) -> bool:
    has_method = cell.found.method_code.partition("+")[0] == _method_code(cell.spec.method)
    return has_method and harness_hash() in cell.found.harness.split("+")


def _has_installed_data(cell: Cell) -> bool:
    return cell.found.data_code == _data_code(cell.spec.data.get("kind"))


@cache
def _method_code(method: str) -> str:
    methods = plugins.group("method")  # not the registry, which is for those who have torch
    try:
        return code_hash(methods.entry(method).module, methods.packages())
    except UserError:  # not installed here, or claimed by two packages
        return ""


@cache
def _data_code(name: object) -> str:
    try:
        from tta_bench.datasets import kind, kinds

        return code_hash(kind(str(name)).code, kinds().packages())
    except (UserError, ImportError):
        return ""
