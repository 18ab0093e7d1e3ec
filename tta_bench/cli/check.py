"""`tta-bench check`: find problems before GPU time is spent."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING

from tta_bench.cli import options
from tta_bench.runs.options import RunOptions
from tta_bench.system import in_background, without_collector

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.preflight.results import CheckResult
    from tta_bench.runs.site import Site
    from tta_bench.suites.suite import Suite


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "check",
        help="find problems before a run",
        description="Check the data, weights, methods and settings of a run, and try every method on a few images. "
        "Takes the options of run.",
    )
    options.add(verb, options.OF_CHECK)
    verb.add_argument(
        "--every-image",
        action="store_true",
        help="decode every image of every task and list all bad files; takes as long as one pass over the data",
    )
    verb.add_argument("--contract", action="store_true", help=_CONTRACT)
    verb.set_defaults(action=run)


_CONTRACT = "instead, run the contract tests of each method on a small ViT; takes --methods and --set"


def run(args: argparse.Namespace) -> int:
    from tta_bench.runs.spec import in_scenario, resolve

    console = options.console()
    suite, asked, _ = resolve(RunOptions.of(vars(args)))  # a typo is reported before torch is imported
    asked = in_scenario(suite, asked)
    if args.contract:
        return _check_promises(suite, asked, console)
    site = asked.site
    results = _check_every_image(suite, asked, site, console) if args.every_image else _check(suite, asked, site)
    for result, others in _causes(results):
        mark, style = ("ok   ", "green") if result.ok else ("ERROR", "bold red")
        line = f"{mark} {result.what}{f' and {others} more' if others else ''}: {result.text}"
        console.print(line, style=style if not result.ok else "", soft_wrap=True)  # paths stay whole
    wrong = sum(not result.ok for result in results)
    console.print(f"{wrong} of {len(results)} checks failed." if wrong else f"All {len(results)} checks passed.")
    return 2 if wrong else 0


def _causes(results: list[CheckResult]) -> list[tuple[CheckResult, int]]:
    """Each result with the number of others that fail for the same reason: 15 tasks may lack the same folder."""
    failed = Counter(result.text for result in results if not result.ok)
    first = {result.text: result for result in reversed(results) if not result.ok}
    return [
        (result, 0 if result.ok else failed[result.text] - 1)
        for result in results
        if result.ok or result is first[result.text]
    ]


def _check_promises(suite: Suite, asked: RunOptions, console: Console) -> int:
    """Whether methods keep the promises that `Method` makes for them."""
    from tta_bench.runs.spec import refuse_misnamed, row_of

    refuse_misnamed(suite, asked)
    rows = [row_of(label, suite, asked) for label in asked.methods or suite.methods]
    from tta_bench.testing import PROMISES, check_promises, remarks_on

    broken = 0
    for row in rows:
        complaints = [line for line in check_promises(row.method, **row.settings) if line[1] is not None]
        broken += bool(complaints)
        if not complaints:
            remarks = "".join(f"; {remark}" for remark in remarks_on(row.method, **row.settings))
            console.print(f"ok    {row.label}: passes all {len(PROMISES)} contract tests{remarks}", soft_wrap=True)
        for promise, complaint in complaints:
            console.print(f"ERROR {row.label}: {promise}: {complaint}", style="bold red", soft_wrap=True)
    methods = f"{broken} of {len(rows)} methods fail a contract test."
    console.print(methods if broken else "All methods pass the contract tests.")
    return 2 if broken else 0


def _check(suite: Suite, asked: RunOptions, site: Site) -> list[CheckResult]:
    """All results. Importing torch and listing ImageNet-C take seconds each, so they run at the same time."""
    from tta_bench.preflight.results import in_data

    with nullcontext() if "torch" in sys.modules else in_background(in_data, suite, asked, site) as data:
        with without_collector():
            import timm  # noqa: F401  (for its models, which `check` is about to load)

            from tta_bench.preflight.check import check

        return check(suite, asked, site, data)


def _check_every_image(suite: Suite, asked: RunOptions, site: Site, console: Console) -> list[CheckResult]:
    """All results, with a bar while images are opened: it needs the terminal, so no other process does this."""
    from tta_bench.cli.progress import progress
    from tta_bench.preflight.check import check
    from tta_bench.preflight.results import in_data

    def data() -> list[CheckResult]:
        with progress(console) as bar:

            def on_opened(task: str, done: int, total: int) -> None:
                bar.update(f"opening {task}", done, total)

            return in_data(suite, asked, site, sample=None, on_opened=on_opened)

    return check(suite, asked, site, data)
