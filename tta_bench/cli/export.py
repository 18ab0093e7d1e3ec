"""`tta-bench export`: the records of runs for an experiment tracker or a dataset hub, without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from tta_bench.cli import options, where


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "export",
        help="write a run for W&B, MLflow, TensorBoard or Hugging Face",
        description="Write the records of one or more runs for another tool: runs, settings, curves and tables. "
        "Everything stays in a folder on this machine; the last line says how to look at it or send it.",
    )
    options.add_runs(verb)
    verb.add_argument(
        "--to", required=True, metavar="TARGET", help="wandb, mlflow, tensorboard, huggingface, or one of a plug-in"
    )
    verb.add_argument("--out", type=Path, metavar="DIR", help="new folder for the files (default: DIR/export/TARGET)")
    where.add_metrics(verb)
    where.add(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.errors import UserError
    from tta_bench.export import export_runs, exporter
    from tta_bench.files import folder_below
    from tta_bench.packed.address import is_folder

    target = exporter(args.to)
    is_packed = not all(map(is_folder, args.dirs))
    if not args.out and (is_packed or len(args.dirs) > 1):
        raise UserError(f"{'a packed run' if is_packed else 'several run folders'}: pass --out DIR for the files")
    out = args.out or folder_below(folder_below(Path(args.dirs[0]), "export"), args.to)
    content = export_runs(args.dirs, args.where, args.to, out, args.metric)
    console = options.console()
    for note in content.notes:
        console.print(note, markup=False, soft_wrap=True)
    runs, tables = len(content.runs), len(content.tables)
    console.print(f"Wrote {runs:,} runs and {tables} tables to {out}", markup=False, soft_wrap=True)
    console.print(f"Next: {target.then.format(out=out)}", markup=False, soft_wrap=True)
    return 0
