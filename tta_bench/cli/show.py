"""`tta-bench show`: a page with the images on which two rows differ."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options, where


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "show",
        help="look at the images on which two methods differ",
        description="Write a page with the images that only one of two rows gets right, the surest mistakes, and both "
        "rows class by class. Images come from the data on this machine, and are compared with the record's digests.",
    )
    options.add_runs(verb)
    verb.add_argument("--a", required=True, metavar="ROW", help="the baseline row, by its label in the tables")
    verb.add_argument("--b", required=True, metavar="ROW", help="the row to compare with the baseline")
    verb.add_argument("--task", required=True, metavar="TASK", help="the task whose images are shown")
    verb.add_argument(
        "--seed", type=options.seed, metavar="N", help="of the stream (default: the lowest that both have)"
    )
    verb.add_argument("--most", type=options.positive, default=48, metavar="N", help="images per group (default: 48)")
    verb.add_argument("--out", type=Path, metavar="FILE", help="the page (default: RUN/show/A-B-TASK.html)")
    options.add_data_root(verb)
    where.add(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.errors import UserError, needs_packages
    from tta_bench.files import folder_below, write_text
    from tta_bench.packed.address import is_folder
    from tta_bench.report.choose import comparison
    from tta_bench.report.runs import Runs
    from tta_bench.show.cards import pair

    if not args.out and not is_folder(args.dirs[0]):
        raise UserError("a packed run: pass --out FILE for the page")
    runs = Runs(args.dirs)
    found = pair(comparison(runs.records, args.where), runs, args.a, args.b, args.task, args.seed)
    with needs_packages():  # a light install cannot read images
        from tta_bench.show.page import page
        from tta_bench.streams.again import stream_again

        again = stream_again(found.record.cell, args.data_root)
        text = page(found, again, args.most)
    name = "".join(char if char.isalnum() or char in "-_.=" else "-" for char in f"{found.a}-{found.b}-{args.task}")
    out = args.out or folder_below(Path(args.dirs[0]), "show") / f"{name}.html"
    write_text(out, text)
    console = options.console()
    if not again.same_pixels:
        console.print("WARNING the pixels on this machine differ from those of the record", style="bold red")
    options.say_written([out], console)
    return 0
