"""The options that choose an engine."""

from __future__ import annotations

import argparse
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli.options import positive, ratio, whole

if TYPE_CHECKING:
    from tta_bench.engines.fleet import Fleet

LOCAL = "local"

# Options of sbatch that work without a value.
FLAGS = frozenset(
    [
        "contiguous",
        "exclusive",
        "get-user-env",
        "hold",
        "ignore-pbs",
        "nice",
        "no-kill",
        "no-requeue",
        "overcommit",
        "oversubscribe",
        "propagate",
        "quiet",
        "reboot",
        "requeue",
        "spread-job",
        "stepmgr",
        "use-min-nodes",
        "verbose",
    ]
)


def add(verb: argparse.ArgumentParser) -> None:
    """The options of `run` for several processes, GPUs or machines."""
    how = verb.add_argument_group("where cells run")
    how.add_argument("--on", metavar="NAME", help=_ON)
    how.add_argument("--jobs", type=positive, metavar="N", help=_JOBS)
    how.add_argument("--gpus", type=gpus, default=(), metavar="0,1,…", help="local: one worker per GPU")
    how.add_argument("--slurm", type=pairs, default={}, metavar="K=V,…", help=_SLURM)
    how.add_argument("--gpus-per-cell", type=ratio, metavar="N", help="ray: GPUs for each worker, as in 1 or 0.5")
    how.add_argument("--retries", type=whole, default=2, metavar="N", help=_RETRIES)
    how.add_argument("--detach", action="store_true", help="return when workers are started; see `tta-bench status`")


_ON = "local (default with --jobs or --gpus), slurm, ray or ray=ADDRESS; see docs/clusters.md"
_JOBS = "workers, each of which runs one cell at a time (local: they share the cores)"
_SLURM = 'slurm: options of sbatch, as in "partition=gpu,gres=gpu:1,time=4:00:00"'
_RETRIES = "how often a cell is given out again if its worker dies (default: %(default)s)"


def fleet(args: argparse.Namespace, folder: Path) -> AbstractContextManager[Fleet | None]:
    """The engine that a command chooses; None for this process."""
    if not (args.on or args.gpus or (args.jobs or 1) > 1 or args.detach or args.slurm or args.gpus_per_cell):
        return nullcontext()
    from tta_bench.engines import Options
    from tta_bench.engines.fleet import Fleet

    given = Options(jobs=args.jobs, gpus=args.gpus, submit=args.slurm, gpus_per_cell=args.gpus_per_cell)
    return Fleet(args.on or LOCAL, given, folder, args.retries)


def gpus(text: str) -> tuple[int, ...]:
    """Comma-separated numbers of GPUs, each once."""
    found = tuple(whole(part.strip()) for part in text.split(","))
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected different GPUs, got '{text}'")
    return found


def pairs(text: str) -> dict[str, str]:
    """Options of sbatch, as in `partition=a,b,time=4:00:00,exclusive`.

    A value may be a list: what follows a comma belongs to it, unless it is `key=…` or one of FLAGS. Options have
    lower-case names: in `export=ALL,DATA=/d`, the second one is a variable.
    """
    found: dict[str, str] = {}
    last = ""  # the option that has the value before this part
    for part in map(str.strip, text.split(",")):
        key, mark, value = part.partition("=")
        is_option = bool(re.fullmatch(r"[a-z][a-z0-9-]+", key)) and bool(mark or key in FLAGS or not last)
        if is_option and key not in found and bool(mark) == bool(value):
            found[key] = value
            last = key if mark else ""
        elif last and not is_option:
            found[last] += f",{part}"
        else:
            raise argparse.ArgumentTypeError(
                f"expected long options of sbatch, each once, as in partition=gpu,time=4:00:00, got '{part}'"
            )
    return found
