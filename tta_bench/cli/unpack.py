"""`tta-bench unpack`: a run folder from packed runs, to go on with."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "unpack",
        help="go on with a packed run",
        description="Copy the cells of packed runs into a run folder, new or existing. `tta-bench run --out DIR` then "
        "runs only what is missing. Cells that were run with other code, weights, settings or images run again.",
    )
    options.add_runs(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="DIR", help="run folder to copy them into")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.packed.resume import copy_runs

    copied, there = copy_runs(args.dirs, args.out)
    kept = f"; {there:,} were there already" if there else ""
    options.console().print(f"Copied {copied:,} cells into {args.out}{kept}", soft_wrap=True)
    return 0
