"""`tta-bench`: parses the command line and runs one command."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import tta_bench
from tta_bench.errors import UserError, clean, did_you_mean, needs_packages
from tta_bench.system import INTERRUPTED, interruptible

EXAMPLES = """\
examples:
  tta-bench run                                     compare methods on the embedded suite: no download, no GPU
  tta-bench run --methods sar,dpal --suite imagenet-c-5 --data-root /data
  tta-bench run --jobs 2                            two cells at a time; see docs/clusters.md for GPUs and Slurm
  tta-bench download --suite cifar10-c-5            download what a suite needs
  tta-bench check --suite demo                      find problems before a run
  tta-bench report results/runs/demo                rebuild the tables from the records
  tta-bench report results/runs/demo --where limit=none          select records if a folder mixes limits
  tta-bench compare results/runs/demo --a sar --b dpal           a difference and its interval
  tta-bench verify results/runs/demo --rerun 2       recompute everything, and run two cells again
  tta-bench figure results/runs/demo pareto                      plot accuracy against cost
  tta-bench inspect --method dpal --tasks fog,contrast           record attention and features for figures

exit status: 0 success, 1 a cell failed, 2 invalid input, unusable files or a failed check, 130 interrupted
"""

# The modules of all commands, in the order of --help.
VERBS = (
    *(
        "run",
        "status",
        "report",
        "compare",
        "results",
        "show",
        "verify",
        "cite",
        "pack",
        "unpack",
        "board",
        "list_",
        "suite",
        "check",
        "doctor",
        "download",
        "tune",
    ),
    *("train_source", "make_corrupted", "calibrate", "inspect_", "figure", "export", "timing", "profile", "work"),
)
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG})


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with the option that was meant."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            meant, _, _ = did_you_mean(unknown[0].partition("=")[0], self._option_string_actions).partition(" (known")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant.rstrip('?')}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The command line: of the command that arguments begin with, or of all; building it imports nothing heavy."""
    top = Parser(
        prog="tta-bench",
        description="Compare test-time adaptation methods fairly: same weights, same images, same order.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"tta-bench {tta_bench.__version__}")
    verbs = top.add_subparsers(title="commands", dest="verb", required=True, metavar="COMMAND", parser_class=Parser)
    named = [verb for verb in VERBS if verb.rstrip("_").replace("_", "-") in arguments[:1]]
    for verb in named or VERBS:
        import_module(f"tta_bench.cli.{verb}").add(verbs)
    return top


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse an empty argument: an unset shell variable, which as a path would mean the current folder."""
    for before, value in zip(["", *arguments], arguments, strict=False):
        if not value or (value.startswith("--") and value.endswith("=")):
            what = value.rstrip("=") or (before if before.startswith("--") else "an argument")
            parser().error(f"{what} is empty: is a shell variable unset?")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; a user's mistake is one line on stderr and status 2."""
    # OpenMP's threads wait by spinning, for so long that two busy processes on one machine crawl. A short spin is as
    # quick on an idle machine and harmless on a busy one. Read when torch is imported; a user's own value is kept.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    _replace_closed()
    for channel in (sys.stdout, sys.stderr):
        if isinstance(channel, io.TextIOWrapper):
            channel.reconfigure(errors="replace")  # a terminal that lacks a character shows a ?
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = ""
    try:
        with interruptible(), needs_packages():
            _refuse_empty(arguments)
            args = parser(arguments).parse_args(arguments)
            args.command = ["tta-bench", *arguments]
            verb = args.verb
            result: int = args.action(args)
            sys.stdout.flush()
    except UserError as error:
        print(f"tta-bench: error: {clean(str(error))}", file=sys.stderr)
        return 2
    except MemoryError as error:
        size = f" ({error})" if str(error) else ""
        print(f"tta-bench: error: not enough memory{size}: ask for less", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has gone
        _drop_output()
        return 1 if verb == "run" else 0  # an interrupted run is not a success
    except OSError as error:
        kept = ": finished cells are kept, run the same command to continue" if verb == "run" else ""
        print(f"tta-bench: error: {clean(_failure(error))}{kept}", file=sys.stderr)
        return 2
    return result


def _failure(error: OSError) -> str:
    """What the system refused; re-raises errors that are not about disks and permissions: those are bugs.

    Errors of standard output, as of a full disk, name no file.
    """
    if error.filename is None and _drop_output():
        return f"standard output cannot be written ({error.strerror})"
    if error.errno in FULL or (error.errno in DENIED and error.filename is not None):
        return f"{error.filename or 'a file'}: {error.strerror}"
    raise error


def _replace_closed() -> None:
    """Give a process that was started without standard output or error a null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (open until the end)


def _drop_output() -> bool:
    """Whether standard output cannot be written; if so, discard what is left to write."""
    try:
        os.write(sys.stdout.fileno(), b"\n")  # a failed write leaves nothing that a flush would try again
    except io.UnsupportedOperation:  # no file at all
        return False
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
