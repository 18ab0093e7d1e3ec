"""`tta-bench pack`: a run folder as one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "pack",
        help="write a run folder as one file",
        description="Write the manifest, commands, records and predictions of a finished run folder as one zip. "
        "report, compare and verify take this file, or its web address, in place of a folder; unpack goes on with it.",
    )
    verb.add_argument("dir", type=Path, metavar="DIR", help="run folder")
    verb.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write, such as run.zip")
    verb.add_argument("--methods", type=options.names, default=(), metavar="A,B,…", help="only these rows")
    verb.add_argument("--seeds", type=options.seeds, default=(), metavar="0,1,…", help="only these seeds")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.packed.pack import pack

    cells = pack(args.dir, args.out, args.methods, args.seeds)
    console = options.console()
    console.print(f"Packed {cells:,} cells: {args.out.stat().st_size:,} bytes")
    options.say_written([args.out], console)
    return 0
