"""Submissions: one folder each, `<board>/<id>/submission.yaml` and `<board>/<id>/run.zip`.

`Entry` is the content of submission.yaml and its schema; `Submission` is an entry with its packed run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tta_bench.checked import parse, validate
from tta_bench.checked.annotations import Count, Name
from tta_bench.errors import UserError
from tta_bench.files import read_whole, write_text
from tta_bench.packed.address import run_folder
from tta_bench.records.record import Record
from tta_bench.records.store import Store

FILE, RUN = "submission.yaml", "run.zip"
BOARD = Path("results/board")
MOST_TEXT = 2**17  # bytes of submission.yaml
MOST_RUN = 100 * 10**6  # bytes of run.zip; GitHub refuses larger files
TODO = "TODO"  # what `board new` leaves to be filled in
DEFAULTS = "defaults"  # in `chosen_on`: nothing was chosen, all settings are the published ones

# One line without markup, control characters or signs that turn the direction of text.
_LINE = r"^(?=.*\S)[^\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069<>]+\Z"
Line = Annotated[str, Meta(pattern=_LINE, max_length=300, title="one line of text without '<' and '>'")]
_ADDRESS = r"https?://[^\s<>\"'\\]+"
Link = Annotated[str, Meta(pattern=rf"^{_ADDRESS}\Z", max_length=500, title="an address that starts with https://")]
Date = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d\Z", title="a date as in 2026-01-31")]
Id = Annotated[
    str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*\Z", max_length=80, title="lower-case letters, digits, '-' and '.'")
]
_ID = "The name of the folder of this submission."
_CHOSEN = (
    "The data that settings were chosen on: names of suites, such as digits-c-holdout, or of other data; "
    f"`{DEFAULTS}` if nothing was chosen."
)
_SETTINGS = "The settings of each row that the suite does not name, by label; `board check` prints what is missing."
_DIVISION = "`closed`: the suite's model, batch size and settings rule. `open`: anything, as declared."


class _Dated:
    """What carries a date that the calendar must have."""

    date: str

    def __post_init__(self) -> None:
        try:
            date.fromisoformat(self.date)
        except ValueError:
            raise ValueError(f"date: there is no {self.date}") from None


@dataclass(frozen=True)
class Who:
    """Who submits."""

    name: Annotated[Line, Meta(description="A person, a group or a company.")]
    link: Annotated[
        str,
        Meta(
            pattern=rf"^({_ADDRESS})?\Z",
            max_length=500,
            title="an address that starts with https://, or nothing",
            description="A page about them, such as a GitHub account.",
        ),
    ] = ""


@dataclass(frozen=True)
class Package:
    """The plug-in package that provides the methods."""

    name: Annotated[Name, Meta(description="The name that pip knows.")]
    version: Annotated[Line, Meta(description="Its version.")]
    link: Annotated[Link, Meta(description="Where its code is.")]
    commit: Annotated[
        str, Meta(pattern=r"^([0-9a-f]{7,64})?\Z", title="a commit as in 1a2b3c4", description="The commit that ran.")
    ] = ""


@dataclass(frozen=True)
class Retraction(_Dated):
    """Why a result no longer counts; its entry stays on the board."""

    reason: Annotated[Line, Meta(description="What was wrong.")]
    date: Annotated[Date, Meta(description="When it was retracted.")]


@dataclass(frozen=True)
class Rerun(_Dated):
    """Somebody else ran cells of this submission again."""

    by: Annotated[Line, Meta(description="Who ran it.")]
    date: Annotated[Date, Meta(description="When.")]
    machine: Annotated[Line, Meta(description="The processor or GPU, and the system.")]
    cells: Annotated[Count, Meta(description="How many cells ran again, drawn at random.")]
    result: Annotated[
        Literal["bit for bit", "within tolerance", "differs"],
        Meta(description="How the predictions compare; tolerance: at most 2 % of them and 0.5 points."),
    ]


@dataclass(frozen=True)
class Entry(_Dated):
    """The content of submission.yaml."""

    id: Annotated[Id, Meta(description=_ID)]
    title: Annotated[Line, Meta(description="One sentence on what is new.")]
    who: Annotated[Who, Meta(description="Who submits.")]
    package: Annotated[
        Package | Literal["built-in"], Meta(description="The package with the methods; `built-in` for tta-bench's own.")
    ]
    division: Annotated[Literal["closed", "open"], Meta(description=_DIVISION)]
    chosen_on: Annotated[tuple[Line, ...], Meta(min_length=1, max_length=50, description=_CHOSEN)]
    date: Annotated[Date, Meta(description="When it was submitted.")]
    paper: Annotated[Link | None, Meta(description="The paper that describes it, if there is one.")] = None
    settings: Annotated[dict[str, dict[str, Any]], Meta(description=_SETTINGS)] = field(default_factory=dict)
    retraction: Annotated[Retraction | None, Meta(description="Set when the result no longer counts.")] = None
    reruns: Annotated[tuple[Rerun, ...], Meta(description="Written by `board check --rerun N --by NAME`.")] = ()


@dataclass(frozen=True)
class Submission:
    """An entry of the board with its packed run, which is unpacked when it is asked for."""

    entry: Entry
    folder: Path
    run: Path

    @property
    def id(self) -> str:
        return self.entry.id

    @cached_property
    def store(self) -> Store:
        """The records and predictions; UserError if run.zip is damaged or not a packed run."""
        return Store.open(run_folder(self.run, MOST_RUN))

    @property
    def suite(self) -> str:
        return self.store.read_manifest().suite

    @cached_property
    def records(self) -> list[Record]:
        return self.store.records()


def read_entry(file: Path) -> Entry:
    """Read a submission.yaml; UserError with the place of anything wrong."""
    try:
        text = read_whole(file, MOST_TEXT).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"{file}: cannot be read ({why}): a submission is a folder with {FILE} and {RUN}") from error
    return validate.read(Entry, parse.from_yaml(text, str(file)), str(file))


def read_submission(folder: Path) -> Submission:
    """Read one submission; its run is not opened yet."""
    if folder.is_symlink() or not folder.is_dir():
        raise UserError(f"{folder} is not a folder: a submission is a folder with {FILE} and {RUN}")
    entry = read_entry(folder / FILE)
    if entry.id != folder.resolve().name:
        raise UserError(f"{folder / FILE}: id: is '{entry.id}', but its folder is named '{folder.resolve().name}'")
    run = folder / RUN
    if run.is_symlink() or not run.is_file():
        raise UserError(f"{folder}: has no {RUN}: `tta-bench pack RUN --out {run}` makes it")
    strange = sorted(path.name for path in folder.iterdir() if path.name not in (FILE, RUN))
    if strange:
        raise UserError(f"{folder}: expected only {FILE} and {RUN}, found {strange[0]!r}: remove it")
    return Submission(entry, folder, run)


def read_board(folder: Path) -> list[Submission]:
    """All submissions of a board, retracted ones included, by their ids; no run is opened yet."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: expected a board, with one folder per submission")
    return [read_submission(path) for path in sorted(folder.iterdir()) if path.is_dir()]


def write_entry(entry: Entry, file: Path) -> None:
    """Write a submission.yaml that reads back as the same entry; keys with default values are omitted."""
    import yaml

    content = msgspec.to_builtins(entry)
    validate.read(Entry, content, str(file))  # not only what was read is written
    short = {f.name: content[f.name] for f in fields(entry) if getattr(entry, f.name) != validate.default_of(f)}
    text = yaml.safe_dump(short, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)
    write_text(file, f"# Keys: tta-bench board schema. How to submit: docs/board.md\n{text}")
