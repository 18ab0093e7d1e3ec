"""`tta-bench status`: how far the jobs of a run folder are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.engines.status import JobStatus, WorkerStatus
    from tta_bench.records.spec import CellSpec
    from tta_bench.records.store import Store


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "status",
        help="show the jobs of a run folder: cells, workers, hosts, time left",
        description="Show how far the jobs are that `tta-bench run --on …` has started, or a plain run.",
    )
    verb.add_argument("folder", type=Path, metavar="FOLDER", help="run folder")
    verb.add_argument("--all", action="store_true", help="show jobs that have ended, too")
    verb.add_argument("--cancel", action="store_true", help="end the workers of all jobs; finished cells are kept")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.engines.job import JobFolder
    from tta_bench.engines.status import status
    from tta_bench.records.store import Store

    console = options.console()
    store = Store.open(args.folder)
    found = [status(job) for job in JobFolder.all(store)]  # oldest first
    if not found:
        _show_plain(store, console)
        return 0
    active = [job for job in found if job.is_active]
    for job in found if args.all else active or found[-1:]:
        _show(job, console)
    return _cancel(active, console) if args.cancel else 0


def _show_plain(store: Store, console: Console) -> None:
    """Cells of a folder without jobs, and what its newest command still lacks."""
    from tta_bench.errors import UserError
    from tta_bench.runs.options import RunOptions
    from tta_bench.runs.spec import requested

    records = store.by_key().values()
    done = [record for record in records if record.status == "done"]
    parts = [f"{len(done)} done", f"{len(records) - len(done)} failed", f"{store.count_running()} running"]
    with suppress(UserError, IndexError):  # a suite file may have moved; a folder may have no command
        wanted = {_name(spec) for spec in requested(RunOptions.of(store.past_commands()[-1].options))[1]}
        left = wanted - {_name(record.cell.spec) for record in done}
        parts.append(f"{len(left)} of the newest command's {len(wanted)} left")
    console.print(f"{store.folder}: no jobs; cells: {', '.join(parts)}", soft_wrap=True)


def _name(spec: CellSpec) -> tuple[object, ...]:
    """What people call a cell, whatever code and settings it ran with."""
    return spec.label, spec.tasks, spec.seed, spec.scenario, spec.limit, spec.batch_size


def _cancel(active: Sequence[JobStatus], console: Console) -> int:
    """Cancel all jobs that can be cancelled from here."""
    from tta_bench.engines.status import cancel
    from tta_bench.errors import UserError

    refusals = []
    for job in active:
        try:
            cancel(job.job)
        except UserError as error:
            refusals.append(str(error))
    count = len(active) - len(refusals)
    if count or not refusals:
        console.print(f"Cancelled {count} job{'s'[: count != 1]}." if active else "No job is active.")
    if refusals:
        raise UserError("; ".join(refusals))
    return 0


def _show(job: JobStatus, console: Console) -> None:
    left = "" if job.seconds_left is None else f", about {_duration(job.seconds_left)} left"
    ended = "" if job.is_active else " (ended)"
    console.print(
        f"job {job.job.name} on {job.engine}{ended}: {job.done} of {job.cells} cells done, {job.running} running, "
        f"{job.waiting} waiting, {job.failed} failed{left}",
        soft_wrap=True,
    )
    for worker in job.workers:
        console.print(f"  worker {worker.name:<4} {worker.life.host or '-':<16} {_doing(worker)}", soft_wrap=True)
    if job.waiting and not job.is_active:
        console.print("  No worker is left for waiting cells: the same `tta-bench run` goes on with them.")


def _doing(worker: WorkerStatus) -> str:
    life, spec = worker.life, worker.spec
    if spec is not None:
        of, accuracy = f" of {life.of:,}" if life.of else "", f", {100 * life.accuracy:.1f} %" if life.images else ""
        return f"{spec.label} on {spec.name}, seed {spec.seed}: {life.images:,}{of} images{accuracy}"
    done = f"{life.done} cell{'s'[: life.done != 1]} done"
    return f"{worker.state}, {done}{f' ({worker.reason})' if worker.reason else ''}"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
