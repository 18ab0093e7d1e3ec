"""`tta-bench list`: the installed methods, suites, datasets and models."""

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
from tta_bench.plugins import OWN

if TYPE_CHECKING:
    from tta_bench.datasets import Dataset
    from tta_bench.suites.suite import Suite

NARROW = 80  # fewer columns than this hold no table
WIDE = 116  # nor do these a table of models, whose names are long
FORMS = (
    ("TAG", "any timm tag with weights, as in vit_base_patch16_224.augreg_in21k_ft_in1k"),
    ("TAG=FILE", "a timm model with weights from a local .safetensors, .pth, .bin or AugReg .npz file"),
    ("FILE", "a .safetensors file written by `tta-bench train-source`"),
)


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "list",
        help="list methods, suites, models or datasets",
        description="List what is installed. Tables wrap to the terminal's width; in a pipe to $COLUMNS, or 120.",
    )
    verb.add_argument("what", choices=("methods", "suites", "models", "datasets"))
    options.add_data_root(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    if args.what == "suites":
        _suites(args.data_root)
    else:
        {"methods": _methods, "models": _models, "datasets": _datasets}[args.what]()
    return 0


def _methods() -> None:
    from tta_bench import registry

    names = registry.installed().names()
    if not names:
        registry.installed().entry("")  # says what to do
    rows = registry.describe(names)
    _show(
        ("method", "paper", "adapts", "needs", "batch", "scored", "passes", "from"),
        [
            (
                r["name"],
                r["paper"],
                r["kind"],
                r["needs"] or "–",
                str(r["batch_size"]),
                r["score_point"],
                r["passes"],
                r["from"],
            )
            for r in rows
            if "error" not in r
        ],
        "needs: what a run needs besides the stream; batch: the published batch size; "
        "scored: the weights that produce the scored logits, before or after the update (or SAM's perturbed weights); "
        "passes: model passes per batch.",
    )
    _say_problems([row["error"] for row in rows if "error" in row])


def _suites(root: Path) -> None:
    from tta_bench.datasets.listing import is_folder
    from tta_bench.papers.answers import own_table
    from tta_bench.runs.site import data_root
    from tta_bench.suites import suite

    if not is_folder(root) and root != data_root():  # the default folder appears with the first download
        raise UserError(f"--data-root {root} is not a folder")
    rows, layouts, tags, problems = [], {}, {}, list(suite.library().problems)
    for name in suite.names():
        try:
            found = suite.load(name)
            layout, there = _data(found, root)
        except UserError as error:
            problems.append(f"suite '{name}' of {suite.library().owner(name)}: {error}")
            continue
        needs, model = layout.partition("/")[0], found.model.rpartition("/")[2].partition(".")[0]
        layouts[needs], tags[model] = layout, found.model
        table = own_table(found)
        answers = f"{found.paper}: {table.name}" if table else "–"
        counts = str(len(found.tasks)), model, str(found.batch_size)
        rows.append((found.name, *counts, needs or "nothing", there, answers, suite.library().owner(name)))
    _show(
        ("suite", "tasks", "model", "batch", "needs", "found", "paper", "from"),
        rows,
        "tasks: how many; batch: images per batch; needs: folder below --data-root; found: whether it exists "
        f"in {root} (`check` verifies that it is complete, `download --suite` brings it); "
        "paper: the paper and table that the suite reproduces (`report --paper`).",
    )
    _say("full model names:")
    for tag in sorted(tag for model, tag in tags.items() if tag != model):
        _say(f"  {tag}")
    _say("layout below --data-root:")
    for layout in sorted(filter(None, layouts.values())):
        _say(f"  {layout}")
    _say_problems(problems)


def _data(found: Suite, root: Path) -> tuple[str, str]:
    """What a suite needs on disk, and whether it is there."""
    from tta_bench.datasets import open_dataset

    dataset = open_dataset(found.data, found.tasks, root)
    if not dataset.layout:
        return "", "yes"
    there = sum(seems_there(dataset, task) for task in found.tasks)
    whole = there == len(found.tasks)
    return dataset.layout, "yes" if whole else f"{there} of {len(found.tasks)} tasks" if there else "no"


def seems_there(dataset: Dataset, task: str) -> bool:
    """Whether a task seems to be on disk; no data at all means no."""
    try:
        return dataset.seems_there(task)
    except UserError:
        return False


def _datasets() -> None:
    from tta_bench import validate
    from tta_bench.datasets import kind, kinds

    rows, problems = [], []
    for name in kinds().names():
        try:
            cls = kind(name)
        except UserError as error:
            problems.append(str(error))
            continue
        options = ", ".join(key.name for key in validate.parameters(cls, ()))
        rows.append((name, options or "–", cls.layout or "nothing", kinds().owner(name)))
    _show(
        ("kind", "options", "needs", "from"),
        rows,
        "kind: the `kind` of a suite's `data`; options: its other keys (docs/suites.md); "
        "needs: files below --data-root.",
    )
    _say_problems(problems)


def _models() -> None:
    from tta_bench.models import packaged, published
    from tta_bench.models.packaged import Family

    rows, families, problems = [], [], []
    for name in packaged.installed().names():
        try:
            found = packaged.entry(name)
        except UserError as error:
            problems.append(str(error))
            continue
        if isinstance(found, Family):
            families.append((found.usage, found.about))
        else:
            facts = _facts(found.num_classes, found.input_size, found.clean, found.licence)
            rows.append((name, *facts, found.about or "–", packaged.owner(name)))
    for row in published.table():
        facts = _facts(row.classes, row.pixels, row.clean, row.licence)
        rows.append((row.model, *facts, f"trained on {row.data}", packaged.owner(row.model) or OWN))
    _show(
        ("model", "classes", "pixels", "clean %", "licence", "about", "from"),
        rows,
        "pixels: side of the input image; clean %: accuracy on clean test images, as published; "
        "–: not stated. Weights of models with a prefix or a tag come from their publisher (below).",
        least=WIDE,
    )
    _say("--model takes these names, and:")
    for usage, about in (*FORMS, *families):
        _say(f"  {usage}: {about}")
    _say("weights to download by hand:")
    for row in published.table():
        if row.weights:
            _say(f"  {row.model} ({row.data}): {row.weights}")
    _say_problems(problems)


def _facts(classes: int | None, pixels: int | None, clean: float | None, licence: str) -> tuple[str, ...]:
    return str(classes or "–"), str(pixels or "–"), "–" if clean is None else f"{clean:.2f}", licence or "–"


def _say_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        _say(problem, "red")


def _show(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], footer: str, least: int = NARROW) -> None:
    """A table; with fewer columns than `least` two lines for each row, on a narrow screen one for each value.

    The last column, the package that provides a row, is left out if all come from tta-bench.
    """
    console = options.narrow_console()
    if all(row[-1] == OWN for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    else:
        footer += f" {head[-1]}: the package that provides it."
    if console.width < least:
        for name, *cells in rows:
            _say(name)
            values = [f"{key}: {cell}" for key, cell in zip(head[1:], cells, strict=True)]
            for line in values if console.width < NARROW else [", ".join(values)]:
                _say(f"  {line}")
        _say(footer)
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in head:
        # The first column holds names for the command line: they stay whole if they fit.
        table.add_column(name, overflow="fold", no_wrap=name == head[0])
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    _say(footer)


def _say(line: str, style: str = "") -> None:
    """Print with a hanging indent; leading blanks indent further."""
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
