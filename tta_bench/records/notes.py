"""What a run folder says beside its records: the commands that ran, warnings for readers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.files import now, write_whole
from tta_bench.records.folder import RunFolder
from tta_bench.records.reading import read_json, read_small


@dataclass(frozen=True)
class Command:
    """A command that ran in a folder."""

    at: str
    command: tuple[str, ...]
    tasks: tuple[str, ...]  # in the order of the columns
    methods: tuple[str, ...]  # in the order of the rows
    chosen: dict[str, str] = field(default_factory=dict)  # by row label: a sentence on how its settings were chosen
    options: dict[str, Any] = field(default_factory=dict)  # of `run`, where they are not at their defaults


class Notes(RunFolder):
    """A run folder with what is noted in it."""

    def note_command(
        self,
        command: list[str],
        tasks: Sequence[str],
        methods: Sequence[str],
        chosen: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Save a command, the order of its tasks and methods for reports, how settings were chosen, and its options."""
        rows = tuple(tasks), tuple(methods), dict(chosen or {}), dict(options or {})
        with self.writing():
            content = json.dumps(asdict(Command(now(), tuple(command), *rows)), indent=1) + "\n"
            write_whole(self.new_command_file(), content.encode())

    def past_commands(self) -> list[Command]:
        """The commands that ran in this folder, oldest first."""
        try:
            files = sorted(self.commands.glob("[!.]*.json"))
            return [validate.read(Command, read_json(file), str(file)) for file in files]
        except UserError as error:
            raise UserError(f"{error}: delete it, only the order of rows depends on it") from error

    def note_warnings(self, found: Mapping[str, str]) -> None:
        """Save a warning for each of these weights; an empty text removes the warning."""
        for weights, warning in found.items():
            file = self.warning_file(weights)
            with self.writing():
                if warning:
                    write_whole(file, f"{warning}\n".encode())
                else:
                    file.unlink(missing_ok=True)

    def warnings(self) -> dict[str, str]:
        """The saved warnings, by the hash of the weights."""
        files = sorted(self.warning_files.glob("[!.]*.txt"))
        return {file.stem: read_small(file).decode(errors="replace").strip() for file in files}
