"""`tta-bench figure`: one picture from a run's folder or from an inspection, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options, where
from tta_bench.errors import UserError
from tta_bench.figures.style import FORMATS

OTHERS = frozenset({"bmp", "eps", "gif", "jpeg", "jpg", "ps", "tif", "tiff", "webp"})  # not written
FROM_RUNS = ("curve", "pareto", "sweep", "speed", "visits", "forgetting", "reliability", "risk", "confusion")
FROM_INSPECTIONS = ("tsne", "attention", "correlation")

ABOUT = """\
figures of a run folder (`tta-bench run`):
  curve        running accuracy over each stream, with a method's own resets marked (--tasks, --methods)
  pareto       accuracy against cost (--cost passes or time, --methods)
  sweep        accuracy against a numeric setting that differs between rows of a method, or of all rows against
               stream_speed, batch_size, limit or severity (--setting, --methods)
  speed        accuracy of all rows against stream speed, and the batches that each adapted to (--methods)
  visits       error at each visit of a recurring stream; prints the change per visit and collapses (--tasks, --methods)
  forgetting   accuracy on the clean images between tasks, of --scenario forgetting or --remember N (--methods)
  reliability  accuracy against confidence (--methods)
  risk         errors among the surest images against coverage (--methods)
  confusion    which classes a row takes for which, the first three rows by default (--methods, --tasks)

figures of an inspection folder (`tta-bench inspect`):
  tsne         t-SNE of shift features of the first and last block, coloured by task (--tasks)
  attention    class-token attention of the last block: original, corrupted, adapted (--tasks)
  correlation  correlation of shift features with image patches (--block first or last, --tasks)
"""


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "figure",
        help="plot a run or an inspection",
        description="Draw a figure for a paper from a run folder or an inspection folder.",
        epilog=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("dir", metavar="DIR", help="run folder, packed run or the web address of one; inspection folder")
    verb.add_argument("kind", choices=(*FROM_RUNS, *FROM_INSPECTIONS), metavar="KIND", help="see below")
    verb.add_argument(
        "--out", type=Path, metavar="FILE", help="output file; a suffix sets the format (default: DIR/figures/KIND)"
    )
    verb.add_argument("--format", type=formats, metavar="F,F", help="any of png, svg, pdf (default: png,svg)")
    verb.add_argument("--tasks", type=options.names, metavar="A,B,…", help="only these tasks")
    verb.add_argument("--methods", type=options.names, metavar="A,B,…", help="only these rows, in this order")
    verb.add_argument(
        "--cost",
        choices=("passes", "time"),
        help="x axis of pareto (default: passes, which are the same on every machine)",
    )
    verb.add_argument("--setting", metavar="NAME", help="x axis of sweep (default: what differs between records)")
    verb.add_argument("--block", choices=("first", "last"), help="block for correlation (default: last)")
    where.add(verb, default=None)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.errors import UserError
    from tta_bench.figures import kinds, style
    from tta_bench.files import folder_below, writing
    from tta_bench.packed.address import is_folder, run_folder

    if not args.out and not is_folder(args.dir):
        raise UserError("a packed run: pass --out FILE for the figure")
    wanted = ("tasks", "methods", "cost", "setting", "block", "where")
    given = {name: getattr(args, name) for name in wanted if getattr(args, name) is not None}
    folder = run_folder(args.dir)
    stem, chosen = stem_and_formats(args.out or folder_below(folder, "figures") / args.kind, args.format)
    with style.house_style():
        found, figure = kinds.make(args.kind, folder, given)
        with writing(stem, ": choose another --out"):
            files = style.save(figure, stem, chosen)
    console = options.console()
    for note in found.notes:
        console.print(note)
    options.say_written(files, console)
    return 0


def stem_and_formats(out: Path, chosen: tuple[str, ...] | None) -> tuple[Path, tuple[str, ...]]:
    """The file's name without suffix, and its formats: the given ones, else the suffix's, else png and svg."""
    suffix = out.suffix.removeprefix(".")
    if suffix in FORMATS:
        return out.with_suffix(""), chosen or (suffix,)
    if suffix in OTHERS:
        raise UserError(f"--out {out}: a figure is written as one of {', '.join(FORMATS)}, got .{suffix}")
    return out, chosen or ("png", "svg")


def formats(text: str) -> tuple[str, ...]:
    found = options.names(text)
    for name in found:
        if name not in FORMATS:
            raise argparse.ArgumentTypeError(f"unknown format '{name}' (known: {', '.join(FORMATS)})")
    return found
