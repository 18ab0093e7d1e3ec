"""`tta-bench tune`: try a grid of settings on a held-out suite."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.cli import options
from tta_bench.runs.options import RUNS, RunOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from tta_bench.records.record import Record
    from tta_bench.report.rows import Comparison
    from tta_bench.report.runs import Runs
    from tta_bench.runs.tuned import Trial, Tuned
    from tta_bench.suites.suite import Suite

DEFAULT = "digits-c-holdout"


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "tune",
        help="grid-search settings on a held-out suite",
        description="Run one method with every combination of settings, list them, best average first, and write the "
        "best to a file for `run --settings`. "
        "Use a suite whose tasks no table reports.",
    )
    verb.add_argument("--method", required=True, metavar="NAME")
    verb.add_argument(
        "--grid",
        required=True,
        action="append",
        metavar="KEY=V,V,…",
        help="values of one setting, as in lr=1e-3,1e-2; repeatable",
    )
    options.add(verb, [*(n for n in options.OF_CHECK if n not in ("methods", "settings")), "jobs"], suite=DEFAULT)
    verb.add_argument(
        "--criterion",
        choices=("accuracy", "entropy", "confidence", "information"),
        default="accuracy",
        help="what decides: held-out accuracy, or a published criterion that needs no labels (default: %(default)s)",
    )
    verb.add_argument("--out", type=Path, metavar="DIR", help=f"run folder (default: {RUNS}/<suite>)")
    verb.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="where the chosen settings go (default: settings.yaml in the run folder)",
    )
    verb.set_defaults(action=run, methods=())


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from tta_bench.runs.spec import refuse_misnamed, specs
    from tta_bench.suites import suite as suites

    args.methods = (args.method,)
    choices = RunOptions.of(vars(args))
    chosen = suites.load(args.suite)
    refuse_misnamed(chosen, choices)
    points = grid(args.grid)  # a typo is reported before torch is imported
    from tta_bench.cli.run_progress import watch
    from tta_bench.engines.start import start
    from tta_bench.papers.baseline import BASELINE
    from tta_bench.report import criteria, render
    from tta_bench.report.rows import compare
    from tta_bench.report.runs import Runs
    from tta_bench.report.tables import accuracy_table, by_average

    console = options.console()
    fixed = choices.overrides.get(args.method, {})
    asked = [replace(choices, set={args.method: {**fixed, **point}}) for point in points]
    source = [] if args.method == BASELINE else specs(chosen, replace(choices, methods=(BASELINE,), set={}))
    requests = [*source, *(spec for choice in asked for spec in specs(chosen, choice))]
    with start(choices, args.command, (chosen, requests, {})) as started, watch(len(requests), console) as watcher:
        everything, _ = started.finish(watcher)
    records = [record for record in everything if record.cell.spec.method != BASELINE or not source]
    folder = started.store.folder
    runs = Runs([folder])
    found, beside = compare(records), compare(everything)
    render.show(by_average(accuracy_table(beside)), console)
    _show_differences(beside, runs, console)
    render.show(criteria.choice_table(found, runs), console)
    scores = {row.first.label: criteria.score(row, runs, args.criterion) for row in found.rows if row.done}
    tried = trials(asked, chosen, records, {} if args.criterion == "accuracy" else scores)
    best = _write(args.write or folder / "settings.yaml", args, tried, chosen, choices, console)
    _warn(best, [record for record in everything if record.cell.spec.method == BASELINE], console)
    return 1 if len(everything) < len(requests) or any(record.status != "done" for record in everything) else 0


def _show_differences(found: Comparison, runs: Runs, console: Console) -> None:
    """Each row against Source, with the interval of the difference."""
    from tta_bench.errors import UserError
    from tta_bench.notes import info
    from tta_bench.report import differences, render
    from tta_bench.report.values import Table, Value

    source = next((row for row in found.rows if row.is_source), None)
    rows = []
    for row in found.rows if source else ():
        if source and row is not source and row.done:
            try:
                overall = differences.difference(found, source.label, row.label, runs).overall
            except UserError:  # no stream on which both are done
                continue
            numbers = (overall.difference, overall.low, overall.high)
            rows.append((row.label, tuple(Value(100 * number, digits=2, signed=True) for number in numbers)))
    note = info("Points of accuracy, mean over tasks. Intervals: block bootstrap over batches.")
    if rows:
        table = Table(f"{found.caption}: against Source", ("difference", "95 % low", "high"), tuple(rows), (note,))
        render.show(table, console)


def _warn(best: Tuned, source: Sequence[Record], console: Console) -> None:
    """Say where a better choice may lie, and where adapting does not help at all."""
    from statistics import fmean

    from tta_bench.runs.tuned import at_edges

    for edge in at_edges(best):
        console.print(f"WARNING {edge} is at the edge of its grid: try values beyond it", soft_wrap=True)
    scores = [100 * top1 for record in source for top1 in record.accuracies.values()]
    if scores and best.accuracy < fmean(scores) - 1e-4:  # not by the rounding of what is stored
        text = f"WARNING the best, {best.accuracy:.1f} %, is below Source, {fmean(scores):.1f} %"
        console.print(f"{text}: no setting of this grid helps here", soft_wrap=True)


def trials(
    asked: Sequence[RunOptions], suite: Suite, records: Sequence[Record], scores: Mapping[str, float]
) -> list[Trial]:
    """The average accuracy of each combination, and its score by label if there is one; none where a cell failed."""
    from statistics import fmean

    from tta_bench.runs.spec import row_of
    from tta_bench.runs.tuned import Trial

    found = []
    for choice in asked:
        (method, settings) = next(iter(choice.overrides.items()))
        label = row_of(method, suite, choice).label
        own = [record for record in records if record.label == label]
        whole = all(record.status == "done" for record in own)
        accuracies = [100 * top1 for record in own for top1 in record.accuracies.values()] if whole else []
        score = round(scores[label], 6) if whole and label in scores else None
        found.append(Trial(settings, round(fmean(accuracies), 4) if accuracies else None, score))
    return found


def _write(
    file: Path, args: argparse.Namespace, tried: Sequence[Trial], suite: Suite, choices: RunOptions, console: Console
) -> Tuned:
    from tta_bench.runs import tuned

    method: str = args.method
    found = tuned.choose(
        tried,
        args.criterion,
        suite=suite.name,
        data=suite.data,
        tasks=tuple(choices.tasks or suite.tasks),
        seeds=tuple(choices.seeds or suite.seeds),
        model=choices.model or suite.model,
        limit=choices.limit,
        by_hand=dict(choices.overrides.get(method, {})),
    )
    best = tuned.add(file, method, found)
    words = " ".join(f"--set {method}.{key}={value}" for key, value in best.settings.items())
    by = "" if args.criterion == "accuracy" else f" by {args.criterion}"
    console.print(f"Best of {len(best.tried)} tried{by}: {words}", soft_wrap=True)
    console.print(f"Written to {file}: `tta-bench run --settings {file}` uses it", soft_wrap=True)
    return best


def grid(texts: list[str]) -> list[dict[str, Any]]:
    """Every combination of `["lr=1e-3,1e-2", "rho=0.05"]`."""
    from tta_bench import settings
    from tta_bench.errors import UserError

    axes = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not (key and equals and values):
            raise UserError(f"--grid {text}: expected SETTING=VALUE,VALUE, as in --grid lr=1e-3,1e-2")
        axes.append([(key, settings.value(word)) for word in values.split(",")])
    return [dict(point) for point in itertools.product(*axes)]
