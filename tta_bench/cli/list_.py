"""`tta-bench list`: the installed methods, suites, datasets, models, metrics and scenarios."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tta_bench.cli import options
from tta_bench.cli.tables import NARROW, details, say, say_problems, show
from tta_bench.errors import UserError
from tta_bench.plugins import OWN

if TYPE_CHECKING:
    from tta_bench.datasets import Dataset
    from tta_bench.suites.suite import Suite

T = TypeVar("T")
WIDE = 116  # columns for a table of models, whose names are long
FORMS = (
    ("TAG", "any timm tag with weights, as in vit_base_patch16_224.augreg_in21k_ft_in1k"),
    ("TAG=FILE", "a timm model with weights from a local .safetensors, .pth, .bin or AugReg .npz file"),
    ("FILE", "a .safetensors file written by `tta-bench train-source`"),
)
ROOMY = 100  # columns that hold a paper's authors, too
SCORED = {
    "pre-update": "logits of the weights before the batch's update",
    "perturbed": "logits of SAM's perturbed weights",
    "post-update": "logits of the weights after the batch's update",
}


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "list",
        help="list methods, suites, models, datasets, metrics or scenarios",
        description="List what is installed. `list methods NAME` shows one method with its settings. Tables wrap to "
        "the terminal's width; in a pipe to $COLUMNS, or 120.",
    )
    what = ("methods", "suites", "models", "datasets", "metrics", "scenarios")
    verb.add_argument("what", choices=what, metavar="|".join(what), help="what to list")
    verb.add_argument(
        "names", nargs="*", default=(), metavar="NAME", help="methods to show in detail, settings included"
    )
    verb.add_argument("--suite", metavar="NAME", help="with methods NAME: their settings on this suite and its model")
    options.add_data_root(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    if args.names and args.what != "methods":
        raise UserError(f"list {args.what} {args.names[0]}: only `list methods` takes names")
    if args.suite and not args.names:
        raise UserError("--suite needs names of methods, as in `list methods NAME --suite SUITE`")
    if args.what == "suites":
        _suites(args.data_root)
    elif args.names:
        _details_of_methods(args.names, args.suite, args.data_root)
    else:
        shown = {"methods": _methods, "models": _models, "datasets": _datasets, "metrics": _metrics}
        (shown | {"scenarios": _scenarios})[args.what]()
    return 0


def _methods() -> None:
    from tta_bench import registry

    names = registry.installed().names()
    if not names:
        registry.installed().entry("")  # raises with what to do
    rows = registry.describe(names)
    short = NARROW <= options.narrow_console().width < ROOMY
    show(
        ("method", "paper", "adapts", "batch", "needs", "from"),
        [
            (
                row["name"],
                row["paper"].rpartition(", ")[2] if short else row["paper"],
                row["kind"],
                str(row["batch_size"] or "–"),
                row["needs"] or "–",
                row["from"],
            )
            for row in rows
            if "error" not in row
        ],
        "batch: the published batch size; needs: what a run needs besides the stream. "
        "`tta-bench list methods NAME` shows what it adapts, its passes, the scored logits and all settings.",
    )
    say_problems([row["error"] for row in rows if "error" in row])


def _details_of_methods(names: Sequence[str], suite: str | None, root: Path) -> None:
    from tta_bench import registry, settings

    for name in names:
        cls = registry.installed().load(name)
        (row,) = registry.describe([name])
        values = _on_suite(name, suite, root) if suite else settings.defaults(cls)
        defaults = {key: "none" if value is None else value for key, value in values.items()}
        details(
            name,
            {
                "idea": row["idea"],
                "paper": row["paper"],
                "adapts": row["adapts"],
                "needs": row["needs"] or "nothing but the stream",
                "published batch size": str(row["batch_size"] or "none stated"),
                "passes per batch": row["passes"],
                "scored": SCORED[row["score_point"]],
                "settings": ", ".join(f"{key}={value}" for key, value in defaults.items()) or "none",
                "from": row["from"],
            },
        )


def _on_suite(name: str, suite: str, root: Path) -> dict[str, Any]:
    """A method's settings on a suite; what it computes from model and batch size, as most rates, is resolved."""
    from tta_bench import registry, settings
    from tta_bench.isolation.adapter import Adapter
    from tta_bench.runs.bind import Binder
    from tta_bench.runs.options import RunOptions
    from tta_bench.runs.spec import row_of, spec_of
    from tta_bench.suites.suite import load

    asked = RunOptions(suite=suite, methods=(name,), data_root=root)
    found = load(suite)
    row = row_of(name, found, asked)
    spec = spec_of(found, asked, row, found.tasks[:1], found.seeds[0])
    values = {**settings.defaults(registry.installed().load(row.method)), **row.settings}
    try:
        method = Adapter(Binder(asked.site).setup(spec), shares_weights=True).method
    except UserError as error:  # weights or data are not here
        say_problems([f"{name}: what depends on the model or the data is not resolved: {error}"])
        return values
    resolved = {key: getattr(method, key, None) for key, value in values.items() if value is None}
    return values | {key: value for key, value in resolved.items() if isinstance(value, int | float | str)}


def _suites(root: Path) -> None:
    from tta_bench.datasets.listing import is_folder
    from tta_bench.papers.baseline import own_table
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
    show(
        ("suite", "tasks", "model", "batch", "needs", "found", "paper", "from"),
        rows,
        "tasks: how many; batch: images per batch; needs: folder below --data-root; found: whether it exists "
        f"in {root} (`check` verifies that it is complete, `download --suite` fetches it); "
        "paper: the paper and table that the suite reproduces (`report --paper`).",
    )
    say("full model names:")
    for tag in sorted(tag for model, tag in tags.items() if tag != model):
        say(f"  {tag}")
    say("layout below --data-root:")
    for layout in sorted(filter(None, layouts.values())):
        say(f"  {layout}")
    say_problems(problems)


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


def _loaded(names: Iterable[str], load: Callable[[str], T]) -> tuple[list[tuple[str, T]], list[str]]:
    """What can be loaded, with its name, and what is wrong with the others."""
    found, problems = [], []
    for name in names:
        try:
            found.append((name, load(name)))
        except UserError as error:
            problems.append(str(error))
    return found, problems


def _datasets() -> None:
    from tta_bench.checked import validate
    from tta_bench.datasets import kind, kinds

    rows = []
    found, problems = _loaded(kinds().names(), kind)
    for name, cls in found:
        options = ", ".join(key.name for key in validate.parameters(cls, ()))
        rows.append((name, options or "–", cls.layout or "nothing", kinds().owner(name)))
    show(
        ("kind", "options", "needs", "from"),
        rows,
        "kind: the `kind` of a suite's `data`; options: its other keys (docs/suites.md); "
        "needs: files below --data-root.",
    )
    say_problems(problems)


def _metrics() -> None:
    from tta_bench.report.metrics import load, metrics

    found, problems = _loaded(metrics().names(), load)
    show(
        ("metric", "column", "better", "about", "from"),
        [(name, one.title or name, one.better or "–", one.about or "–", metrics().owner(name)) for name, one in found],
        "`tta-bench report RUN --metric NAME` adds the column to tables of rows (docs/metrics.md).",
    )
    say_problems(problems)


def _scenarios() -> None:
    from tta_bench.streams.axes.base import AXES
    from tta_bench.streams.composition import catalogue
    from tta_bench.streams.scenarios import SCENARIOS

    choices, presets, problems = catalogue()
    rows = [(c.word, c.axis, c.usage() or "–", c.about, owner) for c, owner in choices]
    show(
        ("choice", "axis", "settings", "about", "from"),
        sorted(rows, key=lambda row: list(AXES).index(row[1])),
        "--scenario takes one choice per axis, joined by +, as in continual+recurring:20+dirichlet:0.1,slots=10.",
    )
    show(
        ("preset", "composition", "from"),
        [*((name, text, owner) for name, text, owner in presets)],
        "A choice beside a preset replaces the preset's choice on its axis, as in csc-20+recurring:5 "
        "(docs/streams.md).",
    )
    say("scenarios of one word, with options of their own:")
    for name, cls in SCENARIOS.items():
        say(f"  {name}: {cls.about}")
    say_problems(problems)


def _models() -> None:
    from tta_bench.models import packaged, published
    from tta_bench.models.packaged import Family

    rows, families = [], []
    found, problems = _loaded(packaged.installed().names(), packaged.entry)
    for name, one in found:
        if isinstance(one, Family):
            families.append((one.usage, one.about))
        else:
            facts = _facts(one.num_classes, one.input_size, one.clean, one.licence)
            rows.append((name, *facts, one.about or "–", packaged.owner(name)))
    for row in published.table():
        facts = _facts(row.classes, row.pixels, row.clean, row.licence)
        rows.append((row.model, *facts, f"trained on {row.data}", packaged.owner(row.model) or OWN))
    show(
        ("model", "classes", "pixels", "clean %", "licence", "about", "from"),
        rows,
        "pixels: side of the input image; clean %: accuracy on clean test images, as published; "
        "–: not stated. Weights of models with a prefix or a tag come from their publisher (below).",
        least=WIDE,
    )
    say("--model takes these names, and:")
    for usage, about in (*FORMS, *families):
        say(f"  {usage}: {about}")
    say("weights to download by hand:")
    for row in published.table():
        if row.weights:
            say(f"  {row.model} ({row.data}): {row.weights}")
    say_problems(problems)


def _facts(classes: int | None, pixels: int | None, clean: float | None, licence: str) -> tuple[str, ...]:
    return str(classes or "–"), str(pixels or "–"), "–" if clean is None else f"{clean:.2f}", licence or "–"
