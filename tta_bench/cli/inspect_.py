"""`tta-bench inspect`: look at what a method does on a few batches, for `tta-bench figure`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options
from tta_bench.runs.options import RUNS, RunOptions
from tta_bench.suites import suite


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "inspect",
        help="record a method's features and attention on a few batches",
        description="Run one method on the first batches of some tasks and record what `tta-bench figure` plots: "
        "class-token attention, predicted shift features, and their correlation with image patches.",
    )
    verb.add_argument("--method", required=True, metavar="NAME")
    verb.add_argument("--batches", type=options.positive, default=8, metavar="N", help="batches per task (default: 8)")
    verb.add_argument("--images", type=options.positive, default=2, metavar="N", help=_IMAGES)
    verb.add_argument("--seed", type=options.seed, default=0, metavar="N", help="seed of the stream order (default: 0)")
    options.add(verb, ("suite", "tasks", "model", "model_args", "set", "device", "data_root"), suite=suite.SMALL)
    verb.add_argument(
        "--out", type=Path, metavar="DIR", help=f"inspection folder (default: {RUNS}/<suite>-inspect-<method>)"
    )
    verb.set_defaults(action=run)


_IMAGES = "images to keep from each task's last batch, for figures (default: 2)"


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from tta_bench.inspect.inspection import refuse_other
    from tta_bench.runs.spec import specs

    chosen = suite.load(args.suite)
    folder = args.out or RUNS / f"{chosen.name}-inspect-{args.method}"
    refuse_other(folder)  # before the time to load a model is spent
    asked = replace(
        RunOptions.of(vars(args)), methods=(args.method,), seeds=(args.seed,), limit=args.batches * chosen.batch_size
    )
    requests = specs(chosen, asked)  # a typo is reported before torch is imported
    from tta_bench.inspect.inspector import inspect

    found = inspect(requests, asked.site, images=args.images, command=args.command)
    files = found.save(folder)
    console = options.console()
    right = 100 * float((found.prediction == found.label).mean())
    shifts = "shift features, " if len(found.shift_last) else ""
    console.print(
        f"Recorded {shifts}attention for {len(found.label)} images of {len(found.tasks)} tasks, each batch after "
        f"adapting to it. Accuracy after adapting: {right:.1f} % (not comparable with a run)."
    )
    if found.manifest.lacking:
        console.print(f"Skipped attention on clean images: {found.manifest.lacking}")
    options.say_written(files, console)
    return 0
