"""`tta-bench board`: submissions to the board."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import options, where
from tta_bench.cli.verify import add_rerun

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.board.review import Review
    from tta_bench.verify.folders import Found


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "board",
        help="make and check submissions to the board, and build its site",
        description="A board is a folder with one folder per submission. See docs/board.md.",
    )
    parts = verb.add_subparsers(title="what to do", dest="what", required=True, metavar="check|build|new|schema")
    _add_check(parts)
    _add_build(parts)
    new = parts.add_parser("new", help="make a submission from a run folder: fill in what is left")
    new.add_argument("dir", type=Path, metavar="DIR", help="run folder with Source and your methods")
    new.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder; its name becomes the id")
    new.add_argument("--methods", type=options.names, default=(), metavar="A,B,…", help="only these rows and Source")
    new.add_argument("--seeds", type=options.seeds, default=(), metavar="0,1,…", help="only these seeds")
    new.set_defaults(action=run_new)
    schema = parts.add_parser("schema", help="the JSON schema of submission.yaml")
    schema.set_defaults(action=run_schema)


def _add_check(parts: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = parts.add_parser(
        "check",
        help="check a submission without running its code",
        description="Recompute what a submission claims and compare it with its suite and the board. "
        "Exit status 0 if it is accepted, 1 if not.",
    )
    check.add_argument("submission", type=Path, metavar="SUBMISSION", help="folder with submission.yaml and run.zip")
    check.add_argument("--board", type=Path, metavar="DIR", help="the other entries (default: results/board)")
    check.add_argument("--comment", type=Path, metavar="FILE", help="also write the review as Markdown")
    check.add_argument("--weights", type=options.names, default=(), metavar="HASH,…", help="source weights you know")
    options.add_data_root(check)
    add_rerun(check)
    check.add_argument("--by", metavar="NAME", help="with --rerun: note in submission.yaml who ran them")
    check.set_defaults(action=run_check)


def _add_build(parts: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    build = parts.add_parser(
        "build",
        help="write the board as a static site",
        description="Write a static site: a table per suite, a page per method and task, differences between any two "
        "rows. It needs no network and works from disk. The folder --out is replaced.",
    )
    build.add_argument(
        "--board", type=Path, metavar="DIR", help="folder with one folder per submission (default: results/board)"
    )
    build.add_argument("--out", type=Path, required=True, metavar="SITE", help="folder of the site")
    build.add_argument("--title", default="TTA board", help="name of the site (default: %(default)s)")
    where.add_metrics(build)
    build.set_defaults(action=run_build)


def run_check(args: argparse.Namespace) -> int:
    from tta_bench.board.check import check
    from tta_bench.board.submission import BOARD, read_board
    from tta_bench.errors import UserError
    from tta_bench.files import write_text

    if args.by and not args.rerun:
        raise UserError("--by requires --rerun N: it notes who ran cells again")
    console = options.console()
    board = args.board or (BOARD if BOARD.is_dir() else None)
    own = args.submission.resolve()
    # An entry that is on the board already is compared with the others; it cannot be compared with itself.
    others = [old for old in read_board(board) if old.folder.resolve() != own] if board else []
    review, found = check(args.submission, others, args.data_root, args.weights)
    if args.rerun and found:
        _rerun(args, review, found, console)
    _show(review, console)
    if args.comment:
        write_text(args.comment, review.comment())
        options.say_written([args.comment], console)
    return 0 if review.accepted else 1


def _show(review: Review, console: Console) -> None:
    from tta_bench.errors import clean
    from tta_bench.report import render

    for table in review.tables:
        render.show(table, console)
    for word, problems in (("PROBLEM", review.problems), ("OPEN", review.open)):
        for problem in problems:
            line = clean(f"{word} {problem.check}: {problem.text}: {problem.remedy}")
            console.print(line, style="bold red", soft_wrap=True, markup=False)
    for note in review.notes:
        console.print(clean(f"note: {note}"), soft_wrap=True, markup=False)
    console.print(review.sentence(), soft_wrap=True, markup=False)


def _rerun(args: argparse.Namespace, review: Review, found: list[Found], console: Console) -> None:
    from tta_bench.board.check import take
    from tta_bench.board.rerun import note_rerun, run_again
    from tta_bench.board.submission import read_submission
    from tta_bench.measure.environment import device_name, pick_device
    from tta_bench.runs.site import Site

    console.print(f"Running {args.rerun} cells again, chosen with --seed {args.seed}")
    site = Site(data_root=args.data_root, device=args.device)
    audit = run_again(found, args.rerun, args.seed, site)
    take(audit, found[0][1].folder, review)
    if args.by:
        device = pick_device(found[0][0].cell.found.device if args.device == "auto" else args.device)
        made = note_rerun(read_submission(args.submission), audit, args.by, device_name(device))
        console.print(f"Noted: run again by {made.by}, {made.cells} cells, {made.result}", markup=False)


def run_new(args: argparse.Namespace) -> int:
    from tta_bench.board.new import make

    files = make(args.dir, args.out, args.methods, args.seeds)
    options.say_written(files, options.console())
    print("Fill in what starts with TODO, then: tta-bench board check", args.out)
    return 0


def run_schema(args: argparse.Namespace) -> int:
    from tta_bench.board.submission import Entry
    from tta_bench.checked import validate

    print(json.dumps(validate.json_schema(Entry), indent=1))
    return 0


def run_build(args: argparse.Namespace) -> int:
    from tta_bench.board.site import build
    from tta_bench.board.submission import BOARD

    built = build(args.board or BOARD, args.out, args.title, args.metric)
    options.console().print(
        f"{built.submissions} submissions on {built.suites} suite{'s' * (built.suites != 1)}: {built.pages} pages, "
        f"the largest {built.largest / 1000:,.0f} kB. Open {args.out / 'index.html'}",
        soft_wrap=True,
    )
    return 0
