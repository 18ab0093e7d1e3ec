"""`tta-bench verify`: recomputes what a run folder claims; without torch unless cells run again."""

from __future__ import annotations

import argparse
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.packed.places import Place
    from tta_bench.verify.findings import Audit
    from tta_bench.verify.folders import Found


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "verify",
        help="recompute what run folders claim",
        description="Recompute digests, scores, orders, labels, weights and tables of run folders, and say what holds, "
        "what fails, which tables are out of date and what could not be checked. Exit status 1 if anything fails.",
    )
    options.add_runs(verb)
    options.add_data_root(verb)
    verb.add_argument("--rerun", type=options.positive, metavar="N", help="run N cells again here, drawn at random")
    verb.add_argument(
        "--seed", type=options.seed, metavar="N", help="of the lot (default: a new one, which is printed)"
    )
    verb.add_argument("--device", default="auto", help="for --rerun (default: the kind that the record names)")
    verb.add_argument("--json", type=Path, metavar="FILE", help="also write the findings to this file")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.verify.folders import verify

    if args.json:
        _refuse_unwritable(args.json)
    console = options.console()
    audit, found = verify(args.dirs, args.data_root)
    _show_intervals(args.dirs, console)
    if args.rerun:
        _rerun(args, audit, found, console)
    styles = {
        "holds": ("holds      ", "green"),
        "fails": ("FAILS      ", "bold red"),
        "stale": ("STALE      ", "yellow"),
        "not checked": ("not checked", "dim"),
    }
    for verdict, text in audit.lines():
        mark, style = styles[verdict]
        line = f"            {text}" if text.startswith("  ") else f"{mark} {text}"
        console.print(line, style=style, soft_wrap=True)
    console.print(_conclusion(audit))
    if args.json:
        _write(args.json, audit)
        options.say_written([args.json], console)
    return 1 if audit.failures else 0


def _conclusion(audit: Audit) -> str:
    """The last line: distrust, or what is left to do."""
    failed, stale, unknown = (len(audit.of(verdict)) for verdict in ("fails", "stale", "not checked"))
    if failed:
        return f"{failed:,} finding{'s'[: failed > 1]}: do not trust these numbers."
    gaps = f"; {unknown:,} of {len(audit.findings):,} checks could not be made" if unknown else ""
    old = f" {stale:,} table{'s'[: stale > 1]} out of date: `tta-bench report` makes them again." if stale else ""
    return f"Nothing contradicts these records{gaps}.{old}"


def _show_intervals(folders: list[Place], console: Console) -> None:
    from tta_bench.errors import UserError
    from tta_bench.report import render
    from tta_bench.verify.tables import intervals

    try:
        for table in intervals(folders):
            render.show(table, console)
    except UserError as error:
        console.print(f"No table can be made: {error}\n", soft_wrap=True)


def _rerun(args: argparse.Namespace, audit: Audit, found: list[Found], console: Console) -> None:
    from tta_bench.runs.site import Site
    from tta_bench.verify.rerun import rerun

    seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    console.print(f"Running {min(args.rerun, len(found))} of {len(found)} cells again, drawn with --seed {seed}")
    site = Site(data_root=args.data_root, device=args.device)
    rerun(found, args.rerun, seed, site, audit, lambda record: console.print(f"  {record.cell.slug}", soft_wrap=True))


def _refuse_unwritable(path: Path) -> None:
    """Refuse a file that cannot be written before cells run again for hours."""
    from tta_bench.errors import UserError

    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if path.is_dir() or (there != path and not there.is_dir()) or not os.access(there, os.W_OK):
        raise UserError(f"--json {path}: cannot be written{' (Is a directory)' if path.is_dir() else ''}")


def _write(path: Path, audit: Audit) -> None:
    from tta_bench.errors import UserError
    from tta_bench.files import write_whole

    try:
        write_whole(path, (json.dumps(audit.to_json(), indent=1) + "\n").encode())
    except OSError as error:
        raise UserError(f"--json {path}: cannot be written ({error.strerror})") from error
