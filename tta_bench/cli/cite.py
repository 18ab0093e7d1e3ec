"""`tta-bench cite`: BibTeX and a methods paragraph from a run's records, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options, where


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "cite",
        help="BibTeX and a methods paragraph for a run",
        description="Print BibTeX entries of the harness, methods, data and model of a run, and a paragraph for a "
        "paper: weights, order, resets, score point, settings and how they were chosen, seeds and machine.",
    )
    options.add_runs(verb)
    verb.add_argument("--format", choices=("md", "latex"), default="md", help="of the paragraph (default: %(default)s)")
    verb.add_argument("--out", type=Path, metavar="DIR", help="write cite.bib, methods.md and methods.tex here instead")
    where.add(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.files import write_text
    from tta_bench.report.choose import comparisons
    from tta_bench.report.cite import citation
    from tta_bench.report.runs import Runs
    from tta_bench.report.write import check_folder

    if args.out:
        check_folder(args.out)
    runs = Runs(args.dirs)
    found = citation(comparisons(runs.records, args.where), runs)
    console = options.console()
    if args.out:
        texts = {"cite.bib": found.bib(), "methods.md": found.markdown(), "methods.tex": found.latex()}
        for name, text in texts.items():
            write_text(args.out / name, text)
        options.say_written([args.out / name for name in texts], console)
    else:
        print(found.markdown() if args.format == "md" else found.latex())
        print(found.bib(), end="")
    for label in found.left_out:
        console.print(f"Left out, as no cell of it is finished: {label}.", soft_wrap=True)
    for what in found.unknown:
        console.print(f"No BibTeX entry for {what}: its package states none.", soft_wrap=True)
    return 0
