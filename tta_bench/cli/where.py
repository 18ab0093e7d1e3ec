"""`--where KEY=VALUE`: which records of a folder count, for the verbs that read run folders."""

from __future__ import annotations

import argparse
from typing import Any

KEYS = "scenario, limit, batch_size, model, device, stream_speed, severity, seed, method, task, suite"


def add_metrics(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="add a column to tables of rows, from stored predictions; may be repeated (`list metrics` has them)",
    )


def add(verb: argparse.ArgumentParser, **changes: Any) -> None:
    """The option; its value is a list of filters as `report.choose` takes them."""
    content: dict[str, Any] = {
        "action": "append",
        "type": filter_of,
        "default": [],
        "metavar": "KEY=VALUE",
        "help": f"select records, as in limit=none or scenario=mixed; repeatable (keys: {KEYS})",
    }
    verb.add_argument("--where", **{**content, **changes})


def filter_of(text: str) -> tuple[str, str]:
    from tta_bench.errors import UserError
    from tta_bench.report.choose import parse

    try:
        return parse(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
