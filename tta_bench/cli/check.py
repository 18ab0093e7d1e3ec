"""`tta-bench check`: everything that can be known before GPU time is spent."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

from tta_bench.cli import options
from tta_bench.processes import meanwhile, without_collector

if TYPE_CHECKING:
    from tta_bench.choices import Choices
    from tta_bench.findings import Finding
    from tta_bench.suite import Suite


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "check",
        help="find what is wrong before time is spent",
        description="Check data, weights, methods and settings of a run, and try every method on a few images. "
        "Takes the options of run.",
    )
    options.add_choices(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench import suite

    console = options.console()
    chosen, choices = suite.load(args.suite), options.choices(args)  # a typo is answered before torch is imported
    findings = _look(chosen, choices)
    for finding in findings:
        mark, style = ("ok   ", "green") if finding.ok else ("ERROR", "bold red")
        console.print(f"{mark} {finding.what}: {finding.told}", style=style if not finding.ok else "", markup=False)
    wrong = sum(not finding.ok for finding in findings)
    console.print(f"{wrong} of {len(findings)} checks failed." if wrong else "All is well: `run` may start.")
    return 2 if wrong else 0


def _look(suite: Suite, choices: Choices) -> list[Finding]:
    """All findings. Torch takes seconds to import, and so does listing ImageNet-C: both go on at once."""
    from tta_bench.findings import in_data

    with without_collector(), nullcontext() if "torch" in sys.modules else meanwhile(in_data, suite, choices) as data:
        from tta_bench.check import check

        return check(suite, choices, data)
