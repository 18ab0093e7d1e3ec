"""What a run folder says beside its records: its suite, the commands that ran, warnings for readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.files import create_whole, write_whole
from tta_bench.records.folder import RunFolder
from tta_bench.records.reading import read_json, read_small


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json."""

    suite: str


@dataclass(frozen=True)
class Command:
    """A command that ran in a folder."""

    at: str
    command: tuple[str, ...]
    tasks: tuple[str, ...]  # in the order of the columns
    methods: tuple[str, ...]  # in the order of the rows
    chosen: dict[str, str] = field(default_factory=dict)  # by row label: a sentence on how its settings were chosen
    options: dict[str, Any] = field(default_factory=dict)  # of `run`, where they are not at their defaults


def create_manifest(run: RunFolder, manifest: Manifest) -> None:
    """Write the manifest of a new folder; an existing one stays."""
    create_whole(run.manifest, _json(asdict(manifest)))


def read_manifest(run: RunFolder) -> Manifest:
    try:
        return validate.read(Manifest, read_json(run.manifest), str(run.manifest))
    except UserError as error:
        raise UserError(f"{error}: restore it, or start over with --fresh") from error


def write_command(run: RunFolder, command: Command) -> None:
    with run.writing():
        write_whole(run.new_command_file(), _json(asdict(command)))


def read_commands(run: RunFolder) -> list[Command]:
    """The commands that ran in a folder, oldest first."""
    try:
        files = sorted(run.commands.glob("[!.]*.json"))
        return [validate.read(Command, read_json(file), str(file)) for file in files]
    except UserError as error:
        raise UserError(f"{error}: delete it, only the order of rows depends on it") from error


def write_warnings(run: RunFolder, found: Mapping[str, str]) -> None:
    """Save a warning for each of these weights; an empty text removes the warning."""
    for weights, warning in found.items():
        file = run.warning_file(weights)
        with run.writing():
            if warning:
                write_whole(file, f"{warning}\n".encode())
            else:
                file.unlink(missing_ok=True)


def read_warnings(run: RunFolder) -> dict[str, str]:
    """The saved warnings, by the hash of the weights."""
    files = sorted(run.warning_files.glob("[!.]*.txt"))
    return {file.stem: read_small(file).decode(errors="replace").strip() for file in files}


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()
