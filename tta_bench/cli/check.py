"""`tta-bench check`: everything that can be known before GPU time is spent."""

from __future__ import annotations

import argparse

from tta_bench.cli import options


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
    from tta_bench.check import check

    findings = check(chosen, choices)
    for finding in findings:
        mark, style = ("ok   ", "green") if finding.ok else ("ERROR", "bold red")
        console.print(f"{mark} {finding.what}: {finding.told}", style=style if not finding.ok else "", markup=False)
    wrong = sum(not finding.ok for finding in findings)
    console.print(f"{wrong} of {len(findings)} checks failed." if wrong else "All is well: `run` may start.")
    return 2 if wrong else 0
