"""`tta-bench list`: what is there."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from tta_bench.cli import options
from tta_bench.errors import UserError

if TYPE_CHECKING:
    from tta_bench.datasets import Dataset
    from tta_bench.suites.suite import Suite

NARROW = 80  # fewer columns than this hold no table


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "list",
        help="show methods, suites or models",
        description="Show what can be run. Tables wrap to the terminal's width; in a pipe to $COLUMNS, or to 120.",
    )
    verb.add_argument("what", choices=("methods", "suites", "models"))
    verb.add_argument("--data-root", **options.DATA_ROOT)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    if args.what == "suites":
        _suites(args.data_root)
    else:
        {"methods": _methods, "models": _models}[args.what]()
    return 0


def _methods() -> None:
    from tta_bench import registry

    names = registry.installed().names()
    if not names:
        registry.installed().entry("")  # says what to do
    rows = registry.describe(names)
    _show(
        ("method", "paper", "adapts", "scored", "passes", "source"),
        [
            (
                r["name"],
                r["paper"],
                r["adapts"],
                r["score_point"],
                r["passes"],
                "needed" if r["needs_source"] else "–",
            )
            for r in rows
            if "error" not in r
        ],
        "scored: the weights that make the scored answer, those before or after the update (or SAM's perturbed ones); "
        "passes: of the model, per batch; source: whether clean source images are needed before the stream.",
    )
    for row in rows:
        if "error" in row:
            _say(row["error"], "red")


def _suites(root: Path | None) -> None:
    from tta_bench.datasets.listing import is_folder
    from tta_bench.suites import suite

    if root is not None and not is_folder(root):
        raise UserError(f"--data-root {root} is no folder")
    rows, layouts, tags = [], {}, {}
    for name in suite.names():
        found = suite.load(name)
        layout, there = _data(found, root)
        needs, model = layout.partition("/")[0], found.model.partition(".")[0]
        layouts[needs], tags[model] = layout, found.model
        answers = found.paper if found.paper and _is_published(found.paper) else "–"
        rows.append(
            (found.name, str(len(found.tasks)), model, str(found.batch_size), needs or "nothing", there, answers)
        )
    _show(
        ("suite", "tasks", "model", "batch", "needs", "found", "answers"),
        rows,
        "tasks: how many; batch: images per batch; needs: what must lie below --data-root; found: whether it does "
        "(?: say --data-root; `check` tells whether it is whole); "
        "answers: the table of the DPAL paper that the suite runs anew.",
    )
    _say("models by their whole names:")
    for tag in sorted(tag for model, tag in tags.items() if tag != model):
        _say(f"  {tag}")
    _say("what lies below --data-root:")
    for layout in sorted(filter(None, layouts.values())):
        _say(f"  {layout}")


def _data(found: Suite, root: Path | None) -> tuple[str, str]:
    """What a suite needs on disk, and whether it is there."""
    from tta_bench.datasets import open_dataset

    dataset = open_dataset(found.data, found.tasks, root)
    if not dataset.layout:
        return "", "yes"
    if root is None:
        return dataset.layout, "?"
    there = sum(_seems_there(dataset, task) for task in found.tasks)
    whole = there == len(found.tasks)
    return dataset.layout, "yes" if whole else f"{there} of {len(found.tasks)} tasks" if there else "no"


def _seems_there(dataset: Dataset, task: str) -> bool:
    try:
        return dataset.seems_there(task)
    except UserError:
        return False


def _is_published(table: str) -> bool:
    from tta_bench.papers import published

    return table in published.tables()


def _models() -> None:
    from tta_bench.models import source as models

    rows = []
    for name in models.EMBEDDED:
        model = models.load(name)
        rows.append((name, str(model.num_classes), model.weights_hash, "comes with tta-bench"))
    _show(("model", "classes", "weights", "about"), rows, "weights: a hash of their values, as records keep it.")
    _say("--model takes these names, and:")
    for what, told in (
        ("TAG", "any timm tag with weights, as in vit_base_patch16_224.augreg_in21k_ft_in1k"),
        ("TAG=FILE", "a timm model with the weights of a local .safetensors, .pth or AugReg .npz file"),
        ("FILE", "a .safetensors file that `tta-bench train-source` wrote"),
    ):
        _say(f"  {what:<9} {told}")


def _show(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], footer: str) -> None:
    console = options.narrow_console()
    if console.width < NARROW:
        for name, *cells in rows:
            _say(name)
            for key, cell in zip(head[1:], cells, strict=True):
                _say(f"  {key}: {cell}")
        _say(footer)
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in head:
        # The first names what a command line takes, so it stays whole where it can.
        table.add_column(name, overflow="fold", no_wrap=name == head[0])
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    _say(footer)


def _say(line: str, style: str = "") -> None:
    """A line that wraps under itself; one that leads with blanks stands in."""
    console = options.narrow_console()
    margin = " " * (2 + len(line) - len(line.lstrip()))
    text = textwrap.fill(
        line.strip(),
        console.width,
        initial_indent=margin,
        subsequent_indent=f"{margin}  ",
        break_on_hyphens=False,
    )
    console.print(Text(text, style=style))
