"""`tta-bench doctor`: compare this machine's GPU with its CPU."""

from __future__ import annotations

import argparse

from tta_bench.cli import options

MARKS = {True: "ok     ", False: "DIFFERS", None: "skipped"}


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "doctor",
        help="compare this machine's GPU with its CPU",
        description="Run every method on the CPU and on the GPU, on a few images of the embedded suite, and compare; "
        "then precision, copies and clocks. Takes about two minutes. Without a GPU it examines a simulated one, and "
        "says so. The report can be pasted into an issue.",
    )
    verb.add_argument("--device", default="auto", metavar="D", help="cuda or cuda:N (default: the first GPU)")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.preflight.doctor import Doctor, about, start
    from tta_bench.testing import tiny_resnet

    console = options.console()
    device = start(args.device)
    for line in about(device):
        console.print(line, soft_wrap=True, markup=False)
    results = []
    for result in Doctor(device, tiny_resnet).results():
        results.append(result)
        mark = MARKS[result.ok]
        console.print(f"{mark} {result.what}: {result.text}", soft_wrap=True, markup=False)
    wrong, made = (sum(result.ok in kinds for result in results) for kinds in ((False,), (False, True)))
    skipped = f" {len(results) - made} were skipped." if made < len(results) else ""
    console.print(f"{wrong or 'None'} of {made} comparisons differ by more than stated.{skipped}")
    return 2 if wrong else 0
