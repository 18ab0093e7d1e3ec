"""`tta-bench board`: submissions to the board."""

from __future__ import annotations

import argparse
import json


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "board",
        help="check submissions to the board",
        description="A board is a folder with one folder per submission. See docs/board.md.",
    )
    parts = verb.add_subparsers(title="what to do", dest="what", required=True, metavar="WHAT")
    schema = parts.add_parser("schema", help="the JSON schema of submission.yaml")
    schema.set_defaults(action=run_schema)


def run_schema(args: argparse.Namespace) -> int:
    from tta_bench import validate
    from tta_bench.board.submission import Entry

    print(json.dumps(validate.json_schema(Entry), indent=1))
    return 0
