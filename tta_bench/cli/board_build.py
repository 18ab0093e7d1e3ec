"""`tta-bench board build`: the board as a static site, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options, where


def add(parts: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    build.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.board.site import build
    from tta_bench.board.submission import BOARD

    built = build(args.board or BOARD, args.out, args.title, args.metric)
    options.console().print(
        f"{built.submissions} submissions on {built.suites} suite{'s' * (built.suites != 1)}: {built.pages} pages, "
        f"the largest {built.largest / 1000:,.0f} kB. Open {args.out / 'index.html'}",
        soft_wrap=True,
    )
    return 0
