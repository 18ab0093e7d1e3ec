"""`tta-bench calibrate`: measure Source for the scenario `ccc`."""

from __future__ import annotations

import argparse
from dataclasses import MISSING
from pathlib import Path

from tta_bench.cli import options
from tta_bench.runs.options import RunOptions


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "calibrate",
        help="measure Source, for --scenario ccc on your data",
        description="Measure the suite's source model under each corruption at rising severities. --scenario ccc reads "
        "how strong its corruptions must be from the file. The embedded data has one.",
    )
    options.add(verb, ("suite", "model", "model_args", "device", "readers", "data_root"), suite=MISSING)
    verb.add_argument(
        "--images", type=options.positive, default=1000, metavar="N", help="clean images (default: %(default)s)"
    )
    verb.add_argument("--out", type=Path, metavar="DIR", help="where the file goes (default: ccc in the data root)")
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from tta_bench.errors import UserError, require
    from tta_bench.files import write_text
    from tta_bench.runs.spec import Row, spec_of
    from tta_bench.streams.ccc.images import calibration_name
    from tta_bench.suites import suite as suites

    require("torch")
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.calibrate import calibrate

    suite, screen, asked = suites.load(args.suite), options.console(), RunOptions.of(vars(args))
    spec = spec_of(suite, asked, Row("source", "source", {}), suite.tasks, 0)
    binder = Binder(asked.site)
    file = (args.out or args.data_root / "ccc") / calibration_name(suite.data, binder.dataset(spec))
    if file.exists():
        raise UserError(f"{file} exists, and streams depend on it: move it away to measure again")
    found = calibrate(spec, binder, args.images, lambda name: screen.print(f"measured {name}"))
    content = json.dumps(asdict(found), indent=1).replace("\n   ", " ").replace("\n  ]", "]")
    write_text(file, f"{content}\n")
    options.say_written([file], screen)
    return 0
