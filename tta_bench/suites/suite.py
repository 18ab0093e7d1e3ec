"""Suites: tasks × model × batch size × methods' settings, one YAML each, checked with readable errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from tta_bench import parse as parsing
from tta_bench import validate
from tta_bench.annotations import Count, Name, Seed, Text
from tta_bench.data.families import CORRUPTIONS
from tta_bench.errors import UserError, did_you_mean

DEFAULT = "digits-c-5"
LOOP = "for_each"

_TASKS = "What is scored, in the order of the columns; `corruptions` stands for the 15 usual ones."
_METHODS = (
    "Rows in their order: a method's name with its settings for this suite, or a label of your own with "
    "`method: NAME` among them."
)


@dataclass(frozen=True)
class Suite:
    """What is compared on what. Everything here can change a result, so cells hash it."""

    name: Annotated[Name, Meta(description="What `--suite` and tables call it.")]
    about: Annotated[str, Meta(description="One line for people.")]
    data: Annotated[
        dict[str, Any], Meta(description="Where images come from: `kind`, and that kind's options (below).")
    ]
    tasks: Annotated[tuple[Name, ...], Meta(min_length=1, description=_TASKS)]
    model: Annotated[
        Text, Meta(description="The source model, as `--model` takes it; `by-task` if the data names them.")
    ]
    batch_size: Annotated[Count, Meta(description="Images per batch.")]
    methods: Annotated[dict[str, dict[str, Any]], Meta(min_length=1, description=_METHODS)]
    version: Annotated[Count, Meta(description="Raise it when results of older versions should not be compared.")] = 1
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1, description="Seeds of the streams' order, one run each.")] = (
        0,
    )
    paper: Annotated[str, Meta(description="The published table that this suite answers, by its file's name.")] = ""
    notes: Annotated[str, Meta(description="How settings were found; changes no result.")] = field(
        default="", compare=False
    )

    def __post_init__(self) -> None:
        for key in ("tasks", "seeds"):
            if (twice := _repeated(getattr(self, key))) is not None:
                raise ValueError(f"{key}: '{twice}' is listed twice")


def names() -> list[str]:
    """The suites that ship with tta-bench."""
    return sorted(_library())


def load(name_or_path: str) -> Suite:
    """Load a suite by its name, or from a YAML file of one's own."""
    if not name_or_path.endswith((".yaml", ".yml")):
        if name_or_path not in _library():
            raise UserError(f"unknown suite '{name_or_path}'{did_you_mean(name_or_path, names())}")
        return _library()[name_or_path]
    path = Path(name_or_path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"suite file {path} cannot be read: {error}") from error
    found = parse(text, path.name)
    if len(found) != 1:
        raise UserError(
            f"{path.name}: describes {len(found)} suites ({', '.join(s.name for s in found)}), expected one"
        )
    return found[0]


def parse(text: str, where: str) -> list[Suite]:
    """Read suites from YAML text; `where` is the file's name for error messages.

    A file with `for_each: {severity: [1, 2]}` describes one suite per value, with `{severity}` filled in.
    """
    content = parsing.from_yaml(text, where)
    if not isinstance(content, Mapping) or LOOP not in content:
        return [_suite(content, where)]
    rest = {key: value for key, value in content.items() if key != LOOP}
    loop = validate.read(dict[str, list[Any]], content[LOOP], f"{where}: {LOOP}")
    if len(loop) != 1:
        raise UserError(f"{where}: {LOOP}: expected one name with its values, got {', '.join(loop) or 'none'}")
    ((word, values),) = loop.items()
    if not values:
        raise UserError(f"{where}: {LOOP}: {word}: expected a list with at least one entry, got []")
    if (twice := _repeated(values)) is not None:
        raise UserError(f"{where}: {LOOP}: {word}: '{twice}' is listed twice")
    return [_suite(_fill(rest, word, value), where) for value in values]


@cache
def _library() -> dict[str, Suite]:
    files = (f for f in resources.files("tta_bench.suites").iterdir() if f.name.endswith(".yaml"))
    suites = [found for file in files for found in parse(file.read_text(), file.name)]
    return {found.name: found for found in suites}


def _suite(content: Any, where: str) -> Suite:
    """One suite, after what authors may leave out or abbreviate is written out."""
    if isinstance(content, Mapping):
        content = dict(content)
        if content.get("tasks") == "corruptions":
            content["tasks"] = list(CORRUPTIONS)
        if isinstance(content.get("methods"), Mapping):
            content["methods"] = {k: {} if v is None else v for k, v in content["methods"].items()}
    return validate.read(Suite, content, where, also=(LOOP,))


def _fill(node: Any, word: str, value: Any) -> Any:
    """Put a value in place of `{word}`; a text that is nothing else becomes the value itself."""
    if isinstance(node, str):
        slot = "{" + word + "}"
        return value if node == slot else node.replace(slot, str(value))
    if isinstance(node, Mapping):
        return {key: _fill(entry, word, value) for key, entry in node.items()}
    if isinstance(node, list):
        return [_fill(entry, word, value) for entry in node]
    return node


def _repeated(entries: Any) -> Any:
    """The first entry that was there before; None if all differ."""
    return next((entry for i, entry in enumerate(entries) if entry in entries[:i]), None)
