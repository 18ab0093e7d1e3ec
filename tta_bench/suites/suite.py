"""Suites: tasks × model × batch size × methods' settings, one YAML each, checked with readable errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from tta_bench import plugins
from tta_bench.checked import parse as parsing
from tta_bench.checked import validate
from tta_bench.checked.annotations import Count, Name, Seed, Text
from tta_bench.data.families import CORRUPTIONS
from tta_bench.errors import UserError, did_you_mean
from tta_bench.files import read_whole

DEFAULT = "demo"  # what `tta-bench run` compares on
SMALL = "digits-c-5"  # for timings and inspections, which need a few batches only
LOOP = "for_each"
CHOICES = (
    "dirichlet",
    "recurring",
    "long-tail",
    "freeze",
    "open",
)  # of a composed stream, whose first setting is swept
AXES = ("stream_speed", "batch_size", "limit", "severity", *CHOICES)

_TASKS = "What is scored, in column order; `corruptions` means the 15 standard ones."
_METHODS = (
    "Rows in order: a method's name with its settings for this suite, or your own label with `method: NAME` "
    "among its settings."
)
_OTHERS = "Settings of further methods for this suite; a method runs with them when `--methods` names it."
_SWEEP = (
    f"One of {', '.join(AXES)} with its values: the suite runs once for each, and `figure sweep` draws them. A "
    "stream_speed of 0 waits; a limit is the length of a stream; the last five are choices of `scenario`."
)
_SCENARIO = "How tasks become streams, as in `--scenario`, which replaces it; `normal` if empty."


@dataclass(frozen=True)
class Suite:
    """What is compared on what. Everything here can change a result, so cells hash it."""

    name: Annotated[Name, Meta(description="What `--suite` and tables call it.")]
    about: Annotated[str, Meta(description="A description in one line.")]
    data: Annotated[
        dict[str, Any], Meta(description="Where images come from: `kind`, and that kind's options (below).")
    ]
    tasks: Annotated[tuple[Name, ...], Meta(min_length=1, description=_TASKS)]
    model: Annotated[
        Text, Meta(description="The source model, as in `--model`; `by-task` if the data names one for each task.")
    ]
    batch_size: Annotated[Count, Meta(description="Images per batch.")]
    methods: Annotated[dict[str, dict[str, Any]], Meta(min_length=1, description=_METHODS)]
    other_methods: Annotated[dict[str, dict[str, Any]], Meta(description=_OTHERS)] = field(default_factory=dict)
    version: Annotated[Count, Meta(description="Increase it when results must not be compared with older ones.")] = 1
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1, description="Seeds of the stream order, one run each.")] = (
        0,
    )
    scenario: Annotated[str, Meta(description=_SCENARIO)] = ""
    sweep: Annotated[dict[str, list[float]] | None, Meta(description=_SWEEP)] = None
    paper: Annotated[str, Meta(description="The paper that this suite reproduces: a folder of tta_bench/papers.")] = ""
    notes: Annotated[str, Meta(description="How settings were chosen; affects no result.")] = field(
        default="", compare=False
    )
    bibtex: Annotated[str, Meta(description="BibTeX entries of the data's papers, for `tta-bench cite`.")] = field(
        default="", compare=False
    )

    def __post_init__(self) -> None:
        for key in ("tasks", "seeds"):
            if (twice := _repeated(getattr(self, key))) is not None:
                raise ValueError(f"{key}: '{twice}' is listed twice")
        if twice := sorted(self.methods.keys() & self.other_methods.keys()):
            raise ValueError(f"other_methods: '{twice[0]}' is among methods, too")
        _refuse_bad_sweep(self.sweep or {})

    def settings(self, label: str) -> dict[str, Any]:
        """The settings of a row in this suite; none for a method that it does not name."""
        return {**self.methods, **self.other_methods}.get(label, {})


def _refuse_bad_sweep(sweep: Mapping[str, list[float]]) -> None:
    if len(sweep) > 1:
        raise ValueError(f"sweep: expected one axis with its values, got {', '.join(sweep)}")
    for axis, values in sweep.items():
        if axis not in AXES:
            raise ValueError(f"sweep: unknown axis '{axis}'{did_you_mean(axis, AXES)}")
        if len(values) < 2 or len(set(values)) < len(values):
            raise ValueError(f"sweep: {axis}: expected at least two different values, got {values}")
        for value in values:
            if not math.isfinite(value) or _is_bad(axis, value):
                raise ValueError(f"sweep: {axis}: expected {_expected(axis)}, got {value:g}")


def _expected(axis: str) -> str:
    numbers = {"stream_speed": "a number of at least 0", "open": "a share above 0 and at most 0.99"}
    numbers |= {"dirichlet": "a number above 0", "long-tail": "a number of at least 1"}
    return numbers.get(axis, "a whole number of at least 1")


def _is_bad(axis: str, value: float) -> bool:
    if axis == "stream_speed":
        return value < 0
    if axis == "open":
        return not 0 < value <= 0.99
    return value <= 0 if axis == "dirichlet" else value < 1 or (axis != "long-tail" and value % 1 != 0)


@dataclass(frozen=True)
class Library:
    """The suites of all installed packages, and what is wrong with those that cannot be read."""

    claims: dict[str, dict[str, Suite]] = field(default_factory=dict)  # by name, then by package
    problems: list[str] = field(default_factory=list)

    def add(self, file: Path, package: str) -> None:
        """Add a file's suites, or note what is wrong with it."""
        try:
            for suite in parse(file.read_text(encoding="utf-8"), file.name):
                if package in self.claims.get(suite.name, {}):
                    raise UserError(f"{file.name}: this package has another suite named '{suite.name}'")
                self.claims.setdefault(suite.name, {})[package] = suite
        except (UserError, OSError, UnicodeDecodeError) as error:
            self.problems.append(f"suites of {package}: {error}")

    def find(self, name: str) -> Suite:
        if not self.claims:
            raise UserError("no suites registered: run `make demo`, or `pip install -e .` in the checkout")
        if name not in self.claims:
            hint = f"; not read: {'; '.join(self.problems)}" if self.problems else ""
            raise UserError(f"unknown suite '{name}'{did_you_mean(name, self.claims)}{hint}")
        (found, *others) = self.claims[name].values()
        if others:
            raise UserError(f"suite '{name}' is claimed by {self.owner(name)}: uninstall one of them")
        return found

    def owner(self, name: str) -> str:
        """The package that provides a suite."""
        return " and ".join(self.claims[name])


@cache
def library() -> Library:
    """The *.yaml files of the packages that the entry points of the group `tta_bench.suites` name.

    Imports none of these packages.
    """
    found = Library()
    for entries in plugins.claims("suite").values():
        for entry in entries:
            package = plugins.package(entry)  # parses the package's metadata
            try:
                for file in _files(entry.module):
                    found.add(file, package)
            except UserError as error:
                found.problems.append(f"suites of {package}: {error}")
    return found


def _files(module: str) -> list[Path]:
    """The YAML files of a package, found without importing it: it may be broken, or import torch."""
    top, _, rest = module.partition(".")
    spec = find_spec(top)
    if spec is None or spec.submodule_search_locations is None:
        raise UserError(f"package '{module}' is not installed")
    folders = [Path(place, *rest.split(".")) if rest else Path(place) for place in spec.submodule_search_locations]
    files = sorted(file for folder in folders for file in folder.glob("*.yaml"))
    if not files:
        raise UserError(f"package '{module}' has no *.yaml files")
    return files


def names() -> list[str]:
    """The names of all installed suites, from tta-bench and from other packages."""
    return sorted(library().claims)


def load(name_or_path: str) -> Suite:
    """Load a suite by its name, or from your own YAML file."""
    if not name_or_path.endswith((".yaml", ".yml")):
        return library().find(name_or_path)
    path = Path(name_or_path)
    try:
        text = read_whole(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"suite file {path} cannot be read: {error}") from error
    found = parse(text, path.name)
    if len(found) != 1:
        raise UserError(f"{path.name}: defines {len(found)} suites ({', '.join(s.name for s in found)}), expected one")
    return found[0]


def parse(text: str, where: str) -> list[Suite]:
    """Read suites from YAML text; `where` is the file's name for error messages.

    A file with `for_each: {severity: [1, 2]}` defines one suite per value, with `{severity}` filled in.
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


def _suite(content: Any, where: str) -> Suite:
    """One suite, with abbreviations expanded."""
    if isinstance(content, Mapping):
        content = dict(content)
        if content.get("tasks") == "corruptions":
            content["tasks"] = list(CORRUPTIONS)
        for key in ("methods", "other_methods"):
            if isinstance(content.get(key), Mapping):
                content[key] = {k: {} if v is None else v for k, v in content[key].items()}
    return validate.read(Suite, content, where, also=(LOOP,))


def _fill(node: Any, word: str, value: Any) -> Any:
    """Replace `{word}` by a value; a text that is exactly `{word}` becomes the value itself."""
    if isinstance(node, str):
        slot = "{" + word + "}"
        return value if node == slot else node.replace(slot, str(value))
    if isinstance(node, Mapping):
        return {key: _fill(entry, word, value) for key, entry in node.items()}
    if isinstance(node, list):
        return [_fill(entry, word, value) for entry in node]
    return node


def _repeated(entries: Any) -> Any:
    """The first duplicate; None if all entries differ."""
    return next((entry for i, entry in enumerate(entries) if entry in entries[:i]), None)
