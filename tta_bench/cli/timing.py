"""`tta-bench timing`: record what adaptation costs, and check that it has not grown."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench import registry
from tta_bench.cli import options
from tta_bench.errors import UserError, did_you_mean
from tta_bench.files import refuse_unwritable, write_text
from tta_bench.suites import suite

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.measure.baseline import Baseline
    from tta_bench.timing.compare import Limits, Result
    from tta_bench.timing.workload import Spec

BATCHES, THREADS = 4, 1
EXIT = "exit status: 0 no method is slower, 1 a method is slower or does more work, 2 invalid input, 3 inconclusive"


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "timing",
        help="check in CI that no method got slower",
        description="Timing checks for noisy machines: exact counts of each method's passes and steps, and its time "
        "as a multiple of Source's, measured side by side.",
    )
    kinds = verb.add_subparsers(title="commands", dest="kind", required=True, metavar="record|check")
    record = kinds.add_parser(
        "record", help="measure a baseline", description="Measure a baseline and write it to a file."
    )
    record.add_argument("--out", type=Path, required=True, metavar="FILE", help="baseline file to write (JSON)")
    add_workload(record)
    record.add_argument(
        "--budget",
        type=options.seconds,
        default=180.0,
        metavar="TIME",
        help="time to measure, as 90s or 3m (default: 3m)",
    )
    record.set_defaults(action=run_record)
    check = kinds.add_parser(
        "check",
        help="compare with a baseline, or with another revision",
        description="Compare with a baseline, or with another revision in the same job.",
        epilog=EXIT,
    )
    what = check.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--baseline", type=Path, metavar="FILE", help="a file written by `timing record`; its workload is repeated"
    )
    what.add_argument("--against", metavar="REV", help=_AGAINST)
    check.add_argument("--tolerance", type=percent, default=0.05, metavar="PERCENT", help=_TOLERANCE)
    check.add_argument("--budget", type=options.seconds, default=100.0, metavar="TIME", help=_BUDGET)
    check.add_argument("--exact-only", action="store_true", help="check only the counts; takes seconds")
    check.add_argument("--json", type=Path, metavar="FILE", help="write all numbers as JSON")
    check.add_argument("--markdown", type=Path, metavar="FILE", help="write a pull-request comment")
    add_workload(check)
    check.set_defaults(action=run_check)


_TOLERANCE = "how much slower a method may become (default: 5%%)"
_AGAINST = "a git revision; builds it and this checkout (with uncommitted changes) and runs both side by side"
_BUDGET = "total time; methods near the limit are measured longer (default: 100s)"


def add_workload(verb: argparse.ArgumentParser, *, methods: bool = True) -> None:
    """Options that define a workload; an option that is not given is None, and keeps the baseline's value."""
    taken = ("methods", "model", "set", "batch_size", "device", "data_root")
    options.add(verb, taken if methods else taken[1:], methods=None, device=None)
    what = verb.add_argument_group("what is timed")
    what.add_argument("--suite", metavar="NAME", help=f"suite whose first batches are used (default: {suite.SMALL})")
    what.add_argument("--batches", type=options.positive, metavar="N", help=f"batches per pass (default: {BATCHES})")
    what.add_argument("--threads", type=options.positive, metavar="N", help=f"CPU threads (default: {THREADS})")


WORKLOAD = ("suite", "model", "batch_size", "batches", "threads", "set", "device")


def run_record(args: argparse.Namespace) -> int:
    refuse_unwritable(args.out)
    asked = spec(args)
    if set(asked.methods) == {"source"}:
        raise UserError("--methods source: Source is the reference; name at least one other method")
    from tta_bench.cli.progress import status_line
    from tta_bench.timing.compare import record
    from tta_bench.timing.measure import Budget
    from tta_bench.timing.workload import prepare

    console = options.console()
    budget = Budget(args.budget)
    with status_line(console) as show:
        made = record(prepare(asked, args.data_root), budget, show)
    made.write(args.out)
    _show_table(made, console)
    floor = f"{100 * (made.noise_floor or 0):.1f} %"
    console.print(f"Noise floor: two runs of the same code differ by up to {floor} on this machine now.", style="dim")
    options.say_written([args.out], console)
    return 0


def run_check(args: argparse.Namespace) -> int:
    from tta_bench.cli.progress import status_line
    from tta_bench.timing import output
    from tta_bench.timing.compare import Limits
    from tta_bench.timing.measure import Budget
    from tta_bench.timing.verdict import FAILS, status

    files = [file for file in (args.json, args.markdown) if file is not None]
    for file in files:
        refuse_unwritable(file)
    named = [file.absolute() for file in (*files, *([args.baseline] if args.baseline else []))]
    if len(set(named)) < len(named):
        raise UserError("--baseline, --json and --markdown must be different files")
    console = options.console()
    with status_line(console) as show:
        limits = Limits(args.tolerance, Budget(args.budget), show, args.exact_only)
        result = _against_revision(args, limits) if args.against else _against_baseline(args, limits)
    _show_table(result.now, console, result.verdicts)
    for verdict in result.verdicts:
        console.print(str(verdict), style="bold red" if verdict.outcome in FAILS else None)
    for note in result.notes:
        console.print(note, style="dim")
    console.print(output.headline(result.verdicts), style="bold")
    if args.json:
        asked = {"baseline": str(args.baseline), "against": args.against, "tolerance": args.tolerance}
        write_text(args.json, output.as_json(result, asked))
    if args.markdown:
        write_text(args.markdown, output.markdown(result))
    return status(result.verdicts)


def _against_baseline(args: argparse.Namespace, limits: Limits) -> Result:
    from tta_bench.measure import baseline
    from tta_bench.timing.compare import check
    from tta_bench.timing.workload import prepare, repeat

    for key in WORKLOAD:
        if getattr(args, key) is not None:
            raise UserError(
                f"--{key.replace('_', '-')} comes from the baseline: drop the option, or record a new baseline"
            )
    then = baseline.read(args.baseline)
    recorded = then.workload.methods
    for name in args.methods or ():
        if name not in recorded:
            raise UserError(f"--methods {name}: not in the baseline{did_you_mean(name, recorded)}")
    chosen = suite.load(then.workload.suite)
    for name in args.methods or recorded:
        if name not in chosen.methods and name not in registry.installed().claims:
            raise UserError(f"method '{name}' of the baseline is not installed: select other methods with --methods")
    return check(then, prepare(repeat(then.workload, args.methods or ()), args.data_root), limits)


def _against_revision(args: argparse.Namespace, limits: Limits) -> Result:
    asked = spec(args)
    from tta_bench.timing.against import check_against, find
    from tta_bench.timing.workload import prepare

    find(args.against)  # before anything is prepared
    return check_against(args.against, prepare(asked, args.data_root), limits)


def spec(args: argparse.Namespace) -> Spec:
    """The workload that the options ask for."""
    from tta_bench.runs.options import RunOptions
    from tta_bench.runs.spec import refuse_unknown

    chosen = suite.load(args.suite or suite.SMALL)
    for name in args.methods or ():
        refuse_unknown(name, chosen, RunOptions())  # a typo is reported before torch is imported
    from tta_bench.timing.workload import Spec

    given = {key: getattr(args, key) for key in (*WORKLOAD, "methods") if getattr(args, key) is not None}
    if "set" in given:
        given["set"] = tuple(given["set"])
    return Spec(**given)


def _show_table(now: Baseline, console: Console, verdicts: list[Any] | None = None) -> None:
    from tta_bench.cli.tables import numbers
    from tta_bench.timing import output

    console.print(output.where(now), style="dim")
    console.print(numbers(output.COLUMNS, output.rows(now, verdicts), texts=2))
    console.print("forwards, backwards: passes per image; steps: optimiser steps per batch", style="dim")


def percent(text: str) -> float:
    """`10%`, `10` or `0.5%` as a fraction; a bare 0.05 may mean either, so it is refused."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value < 1000 or (value < 1 and not text.endswith("%")):
        raise argparse.ArgumentTypeError(f"expected a percentage above 0% and below 1000% as in 5%, got '{text}'")
    return value / 100
