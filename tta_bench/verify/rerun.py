"""Runs randomly chosen cells again and compares their predictions."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from tta_bench.errors import UserError
from tta_bench.records.cell import unequal_parts
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record
from tta_bench.records.store import Store
from tta_bench.runs.bind import shared_binder
from tta_bench.runs.execute import Cells
from tta_bench.runs.site import Site
from tta_bench.runs.watcher import Watcher
from tta_bench.verify import rounding
from tta_bench.verify.findings import Audit
from tta_bench.verify.folders import Found

# Other platforms round sums differently, and adaptation amplifies this from batch to batch.
MOST_DIFFERENT, MOST_POINTS = 0.02, 0.5  # share of predictions, points of accuracy
INPUTS = ("stream", "images", "source", "weights")  # without these the same cell cannot run here
PLATFORM = ("device_name", "threads", "python", "platform")
MOST_THREADS = 256  # a record may name any number
OnCell = Callable[[Record], None]


def rerun(
    found: Sequence[Found], count: int, seed: int, site: Site, audit: Audit, on_cell: OnCell = lambda record: None
) -> None:
    """Run `count` of these cells again in a temporary folder; the same seed draws the same cells."""
    ordered = sorted(found, key=lambda pair: pair[0].cell.key)
    for record, store in random.Random(seed).sample(ordered, min(count, len(ordered))):
        on_cell(record)
        where = str(store.prediction_file(record.cell).with_suffix(".json"))
        try:
            _again(record, store, site, audit, where)
        except UserError as error:
            audit.unknown("rerun", where, f"cannot run here: {error}")


def _again(record: Record, store: Store, site: Site, audit: Audit, where: str) -> None:
    own = replace(site, device=record.cell.found.device) if site.device == "auto" else site
    with tempfile.TemporaryDirectory(prefix="tta-bench-verify-") as folder, _threads(record, own):
        here = Store.create(Path(folder) / "run", record.cell.spec.suite)
        again = Cells(shared_binder(own), here, Watcher()).find_or_run(record.cell.spec)
        if again is None:
            raise UserError("another process holds this cell")
        if again.status != "done":
            audit.fails("rerun", where, f"failed here: {again.reason}")
            return
        _compare(record, store.predictions(record), again, here.predictions(again), audit, where)


@contextmanager
def _threads(record: Record, site: Site) -> Iterator[None]:
    """Use the record's number of threads, here and in workers: another number changes the last bits of sums."""
    before, given = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    count = min(record.measured.environment.get("threads") or before, MOST_THREADS)
    torch.set_num_threads(count)
    os.environ["OMP_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        os.environ.pop("OMP_NUM_THREADS")
        if given is not None:
            os.environ["OMP_NUM_THREADS"] = given
        shared_binder(site).workers.close()  # they keep the threads that they started with


def _compare(old: Record, was: Predictions, new: Record, now: Predictions, audit: Audit, where: str) -> None:
    parts = unequal_parts(old.cell, new.cell)
    if missing := [name for name in INPUTS if name in parts]:
        audit.unknown("rerun", where, f"this machine has other {' and '.join(missing)}")
        return
    if old.predictions == new.predictions:
        audit.holds("rerun", where, "same predictions, bit for bit")
        return
    share = float(np.mean(was.whole("prediction") != now.whole("prediction")))
    points = 100 * (new.scores.top1 - old.scores.top1)
    distance = f"{100 * share:.2f} % of predictions differ, accuracy by {points:+.2f} points"
    changed, is_free = [*parts, *_other_platform(old, new)], _is_free(old)
    if not changed and not is_free:
        audit.fails("rerun", where, f"{distance}, on the same platform with the same code")
        return
    why = f"here {' and '.join(changed)} {'is' if len(changed) == 1 else 'are'} different"
    if not changed:
        limit = rounding.distance(old)
        why = rounding.complaint(was, now, limit)
        if not why:
            audit.holds("rerun", where, f"{distance}, confidences by at most {limit:.1e}: the order of sums")
            return
    if share > MOST_DIFFERENT or abs(points) > MOST_POINTS:
        most = f"at most {100 * MOST_DIFFERENT:g} % and {MOST_POINTS:g} points are expected"
        audit.fails("rerun", where, f"{distance}, {most}; {why}")
    elif changed:
        audit.holds("rerun", where, f"{distance}; {why}")
    else:
        audit.unknown("rerun", where, f"{distance}; {why}. Run with --deterministic to know")


def _other_platform(old: Record, new: Record) -> list[str]:
    """What is different here and may change the last bits."""
    ours, theirs = new.measured.environment, old.measured.environment
    found = [name for name in PLATFORM if ours.get(name) != theirs.get(name)]
    gpus = ours.get("gpu") or {}, theirs.get("gpu") or {}
    found += [name for name in {**gpus[0], **gpus[1]} if gpus[0].get(name) != gpus[1].get(name)]
    packages = ours.get("packages", {}), (theirs.get("packages") or {})
    return found + [name for name in packages[0] if packages[0][name] != packages[1].get(name)]


def _is_free(record: Record) -> bool:
    """Whether sums were taken in any order, as on a GPU without --deterministic."""
    gpu = record.measured.environment.get("gpu") or {}
    return bool(gpu) and not gpu.get("deterministic")
