"""`tta-bench suite`: a suite's YAML to start from, and what a suite file may hold."""

from __future__ import annotations

import argparse


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "suite",
        help="print a suite's YAML, or the keys of suite files",
        description="Print what you need to write a suite file.",
    )
    parts = verb.add_subparsers(title="what to print", dest="what", required=True, metavar="copy|schema")
    copy = parts.add_parser("copy", help="the YAML of a suite: tta-bench suite copy digits-c-5 > mine.yaml")
    copy.add_argument("name", metavar="NAME", help="suite name or YAML file")
    copy.set_defaults(action=run_copy)
    schema = parts.add_parser("schema", help="the keys of suite files, as Markdown")
    schema.set_defaults(action=run_schema)


def run_copy(args: argparse.Namespace) -> int:
    from tta_bench.suites import schema, suite

    print(schema.as_yaml(suite.load(args.name)), end="")
    return 0


def run_schema(args: argparse.Namespace) -> int:
    from tta_bench.suites import schema

    print(schema.page(), end="")
    return 0
