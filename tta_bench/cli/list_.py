"""`tta-bench list`: what is there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from tta_bench.cli import options
from tta_bench.errors import UserError

if TYPE_CHECKING:
    from tta_bench.suite import Suite


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser("list", help="show methods, suites or models", description="Show what can be run.")
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
        ("method", "paper", "adapts", "scored", "passes per batch", "source data"),
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
    )
    for row in rows:
        if "error" in row:
            options.console().print(Text(f"  {row['error']}", style="red"))


def _suites(root: Path | None) -> None:
    from tta_bench import suite

    rows = []
    for name in suite.names():
        found = suite.load(name)
        needs, there = _data(found, root)
        answers = f"paper: {found.paper}" if found.paper and _is_published(found.paper) else "–"
        rows.append((found.name, str(len(found.tasks)), found.model, str(found.batch_size), needs, there, answers))
    _show(("suite", "tasks", "model", "batch", "needs below --data-root", "found", "answers"), rows)


def _data(found: Suite, root: Path | None) -> tuple[str, str]:
    """What a suite needs on disk, and whether it is there."""
    from tta_bench.datasets import open_dataset

    dataset = open_dataset(found.data, found.tasks, root)
    if not dataset.layout:
        return "nothing", "yes"
    if root is None:
        return dataset.layout, "?"
    try:
        dataset.open(found.tasks[0])
    except UserError:
        return dataset.layout, "no"
    return dataset.layout, "yes"


def _is_published(table: str) -> bool:
    from tta_bench import published

    return table in published.tables()


def _models() -> None:
    from tta_bench import models

    rows = []
    for name in models.EMBEDDED:
        model = models.load(name)
        rows.append((name, str(model.num_classes), model.weights_hash, "comes with tta-bench"))
    _show(("model", "classes", "weights", "about"), rows)
    options.console().print(
        "  Also: any timm tag with weights, as in vit_base_patch16_224.augreg_in21k_ft_in1k,\n"
        "  and any .safetensors file that `tta-bench train-source` wrote."
    )


def _show(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    options.console().print(table)
