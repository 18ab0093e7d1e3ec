"""`tta-bench work`: what an engine starts on a machine, to run cells of a job."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "work",
        help="run cells of a job that `run --on` has submitted; started by an engine",
        description="Take one cell of a job after the other until none is left. `tta-bench run --on …` writes the job "
        "and starts its workers; this command is for engines, and for schedulers that tta-bench does not know.",
    )
    verb.add_argument("folder", type=Path, metavar="FOLDER", help="run folder, on a disk that all machines share")
    verb.add_argument("job", metavar="JOB", help="name of a folder in FOLDER/jobs")
    verb.add_argument("index", type=options.whole, metavar="INDEX", help="number of this worker, from 0")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.engines.job import JobFolder
    from tta_bench.engines.loop import work
    from tta_bench.isolation.pool import Workers
    from tta_bench.records.store import Store

    return work(JobFolder(Store.open(args.folder), args.job), args.index, Workers(forks=True))
