"""Runs `tta-bench` as on a machine with a light install: takes commands as JSON, gives what each of them said."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.machinery import ModuleSpec
from types import ModuleType

from tta_bench.cli.main import main
from tta_bench.errors import LEFT_OUT


class Missing:
    """Finds no package that a light install leaves out."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top in LEFT_OUT:
            raise ModuleNotFoundError(f"No module named '{top}'", name=top)
        return None


def said(words: list[str]) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as stop:  # argparse exits this way
            status = int(stop.code or 0)
    return status, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    if sys.argv[2:] != ["everything"]:
        sys.meta_path.insert(0, Missing())
    print(json.dumps([said(words) for words in json.loads(sys.argv[1])]))
