"""`tta-bench verify`: recomputes what a run folder claims; without torch unless cells run again."""

from __future__ import annotations

import argparse
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.packed.address import Address
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
    add_rerun(verb)
    verb.add_argument("--json", type=Path, metavar="FILE", help="also write the findings to this file")
    verb.set_defaults(action=run)


def add_rerun(verb: argparse.ArgumentParser) -> None:
    """The options that run cells again."""
    verb.add_argument("--rerun", type=options.positive, metavar="N", help="run N random cells again here")
    seed_help = "seed for choosing cells (default: a new one, which is printed)"
    verb.add_argument("--seed", type=options.seed, default=secrets.randbelow(2**32), metavar="N", help=seed_help)
    verb.add_argument("--device", default="auto", help="for --rerun (default: the kind that the record names)")


def run(args: argparse.Namespace) -> int:
    from tta_bench.files import refuse_unwritable, write_text
    from tta_bench.verify.folders import verify

    if args.json:
        refuse_unwritable(args.json)
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
        write_text(args.json, json.dumps(audit.to_json(), indent=1) + "\n")
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


def _show_intervals(folders: list[Address], console: Console) -> None:
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

    console.print(f"Running {min(args.rerun, len(found))} of {len(found)} cells again, chosen with --seed {args.seed}")
    site = Site(data_root=args.data_root, device=args.device)
    rerun(
        found, args.rerun, args.seed, site, audit, lambda record: console.print(f"  {record.cell.slug}", soft_wrap=True)
    )
