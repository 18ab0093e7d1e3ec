"""Packs a run folder into one zip: manifest, commands, warnings, records and predictions, nothing else.

The same folder gives the same bytes: names are sorted, and no date, owner or permission of this machine is kept.
Another version of zlib may compress differently; the content stays the same.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

from tta_bench.errors import UserError, did_you_mean
from tta_bench.files import open_whole, read_whole, writing
from tta_bench.packed.columns import STREAMS, SUFFIX, split
from tta_bench.records.reading import read_record
from tta_bench.records.record import Record
from tta_bench.records.store import Store

EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip can hold
MOST_FILES = 20_000
MOST_UNPACKED = 2**32 - 1  # bytes; larger zips need an extension that we refuse
MOST_PACKED = 2**31
MODE = 0o100644 << 16  # a plain file


def pack(folder: Path, out: Path, methods: Collection[str] = (), seeds: Collection[int] = ()) -> int:
    """Write a finished run folder as one file; returns the number of cells. UserError for a damaged or unfinished one.

    `methods` are the rows to keep, by their labels, and `seeds` those of their streams; default: all.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: expected a run folder, as `tta-bench run --out` makes it")
    store = Store.open(folder)
    records = _chosen(store, methods, seeds)
    with writing(f"--out {out}"), open_whole(out) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        size = 0
        for name, content in _files(store, records):
            size += len(content)
            if size > MOST_UNPACKED:
                raise UserError(f"{folder}: more than {MOST_UNPACKED:,} bytes: choose some rows with --methods")
            info = zipfile.ZipInfo(name, EPOCH)
            info.create_system, info.external_attr = 3, MODE
            archive.writestr(info, content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return len(records)


def _chosen(store: Store, methods: Collection[str], seeds: Collection[int]) -> list[Record]:
    """The records to pack, in the order of their names; every one of them is finished."""
    records = [read_record(path) for path in store.record_files()]
    labels = dict.fromkeys(record.label for record in records)
    for method in methods:
        if method not in labels:
            raise UserError(f"--methods {method}: {store.folder} has no such row{did_you_mean(method, labels)}")
    kept = [record for record in records if not methods or record.label in methods]
    found = [record for record in kept if not seeds or record.cell.spec.seed in seeds]
    if kept and not found:
        raise UserError(f"{store.folder}: no record has one of the seeds {', '.join(map(str, seeds))}")
    if not found:
        raise UserError(f"{store.folder}: no records: run `tta-bench run` first")
    for record in found:
        if record.status != "done":
            raise UserError(f"{record.cell.slug} failed ({record.reason}): run the same command again, or leave it out")
    if 3 * len(found) > MOST_FILES - 1000:  # each with a stream of its own
        raise UserError(f"{store.folder}: {len(found):,} cells are too many for one file: choose some with --methods")
    return found


def _files(store: Store, records: list[Record]) -> Iterator[tuple[str, bytes]]:
    """Names and contents in a fixed order; damaged predictions are a UserError."""
    store.past_commands()  # refuses unreadable ones
    yield "manifest.json", read_whole(store.manifest)
    for place in (store.commands, store.warning_files):
        for path in sorted(place.glob("[!.]*")):
            yield f"{place.name}/{path.name}", read_whole(path)
    streams: set[str] = set()
    for record in records:
        store.predictions(record)
        path = store.prediction_file(record.cell)
        yield f"cells/{path.stem}.json", read_whole(path.with_suffix(".json"))
        name, shared, own = split(read_whole(path), record.scores.samples)
        if name not in streams:
            streams.add(name)
            yield f"{STREAMS}/{name}{SUFFIX}", shared
        yield f"cells/{path.stem}{SUFFIX}", own
