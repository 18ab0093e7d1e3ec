"""`tta-bench download`: fetch published datasets into the data root."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.cli import options
from tta_bench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from tta_bench.download.fetch import Fetched
    from tta_bench.download.table import PublishedFile, PublishedSet

MB = 1_000_000

Piece = tuple["PublishedSet", "PublishedFile"]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "download",
        help="download datasets",
        description="Download published datasets, check them, and put them where the suites expect them. "
        "Existing files are kept. Run the same command again to continue after an interruption.",
    )
    verb.add_argument("names", nargs="*", metavar="NAME", help="datasets, as in cifar10-c; an unknown name lists all")
    verb.add_argument("--suite", metavar="NAME", help="download what this suite needs and does not find")
    verb.add_argument("--mirror", metavar="URL", help="fetch the same file names below this address, and check them")
    options.add_data_root(verb)
    verb.set_defaults(action=run)


def run(args: argparse.Namespace) -> int:
    from tta_bench.download import table
    from tta_bench.download.fetch import address_of, is_there, refuse_duplicate

    if bool(args.names) == bool(args.suite):
        raise UserError(f"expected names of datasets, or --suite NAME (known: {', '.join(table.published())})")
    console, root = options.console(), args.data_root
    names = args.names or missing(args.suite, root)
    if not names:
        said = f"{args.suite}: nothing is missing; `tta-bench check --suite {args.suite}` checks the files"
        console.print(said, soft_wrap=True)
        return 0
    sets = table.find(names)
    pieces = [(entry, file) for entry in sets for file in entry.files]
    todo = [(entry, file) for entry, file in pieces if not is_there(file, root)]
    for entry, file in pieces:
        if (entry, file) not in todo:
            console.print(f"{entry.name}: {root / file.brings} exists and is kept", soft_wrap=True)
    for _, file in todo:
        refuse_duplicate(file, root)
        address_of(file, args.mirror)  # refuses a wrong --mirror
    if todo:
        _say_plan(todo, root, args.mirror, console)
    for entry, file in todo:
        _fetch(entry, file, root, args.mirror, console)
    if args.suite and not todo and pieces:
        console.print(
            f"{args.suite} still lacks something: `tta-bench check --suite {args.suite}` says what. To download"
        )
        console.print("a folder that is incomplete again, move it away first.")
        return 1
    by_hand = [entry for entry in sets if entry.by_hand and not (root / entry.layout.partition("/")[0]).is_dir()]
    for entry in by_hand:
        console.print(
            f"{entry.name}: {entry.about}. Get it at {entry.page}, {entry.by_hand}: expected {root}/{entry.layout}",
            soft_wrap=True,
        )
    return 1 if by_hand else 0


def missing(name: str, root: Path) -> list[str]:
    """The names of the datasets that a suite needs and that are not in the data root."""
    from tta_bench.cli.list_ import seems_there
    from tta_bench.datasets import open_dataset
    from tta_bench.suites import suite

    found = suite.load(name)
    dataset = open_dataset(found.data, found.tasks, root)
    lacking = [task for task in found.tasks if not seems_there(dataset, task)]
    names = list(dict.fromkeys(name for task in lacking for name in dataset.downloads(task)))
    if lacking and not names:
        raise UserError(f"suite '{name}': no published file is known for its data: expected {dataset.layout} in {root}")
    return names


def _say_plan(todo: Sequence[Piece], root: Path, mirror: str | None, console: Console) -> None:
    """Print what will be fetched and how much disk it takes; refuse it if there is too little."""
    from tta_bench.download import space, transfer
    from tta_bench.download.fetch import HIDDEN, address_of

    wanted = []
    for entry, file in todo:
        address = address_of(file, mirror)
        part = (root / file.brings).parent / HIDDEN / f"{file.name}.part"
        wanted.append((file, address, transfer.size_of(part)))
        checked = file.checksum[0] if file.checksum else "no checksum is published"
        console.print(
            f"{entry.name}: {address} ({entry.licence or 'licence: ' + entry.page}; {checked})", soft_wrap=True
        )
    need = space.need(wanted)
    unknown = f", and {need.unknown} files of unknown size" if need.unknown else ""
    meanwhile = f" (needs {space.gigabytes(need.at_most)} meanwhile)" if need.at_most > need.kept else ""
    free = f"{space.gigabytes(space.free(root))} are free in {root}"
    console.print(f"Takes {space.gigabytes(need.kept)} of disk{meanwhile}{unknown}; {free}", soft_wrap=True)
    space.require(root, need.at_most, "this download")


def _fetch(entry: PublishedSet, file: PublishedFile, root: Path, mirror: str | None, console: Console) -> Fetched:
    from tta_bench.cli.progress import progress
    from tta_bench.download.fetch import fetch_file

    def on_wait() -> None:
        console.print(f"{entry.name}: another process is fetching {file.name}; waiting for it", soft_wrap=True)

    with progress(console, "MB", lines=1) as show:

        def on_progress(stage: str, done: int, total: int | None) -> None:
            show.update(f"{stage} {file.name}", done // MB, max((total or done) // MB, 1))

        fetched = fetch_file(file, root, mirror=mirror, on_progress=on_progress, on_wait=on_wait)
    if fetched.was_there:
        said = "another process has fetched it"
    elif fetched.is_published:
        said = f"{fetched.checksum}, as published"
    else:
        said = f"no checksum is published; recorded {fetched.checksum}"
    console.print(f"{entry.name}: {fetched.target} ({said})", soft_wrap=True)
    return fetched
