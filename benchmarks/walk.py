"""The hand-overs of a run: what a reader follows from module to module until a method adapts.

python -m benchmarks.walk            counts for `run`, `run --jobs 2`, and the same run once it is finished
python -m benchmarks.walk --list     the functions, too, in the order of their first call

Rule of counting: distinct public functions and methods of the rooms on the way (WAY), in all processes of the run
together, that another module of tta_bench calls in a main thread before the first `adapt` of a method, or before the
report of a run that has nothing left to do. A module's own helpers do not count: a reader who trusts their names reads
on. Neither do constructors, properties and the names of files (NAMES), which hand over data but not control, nor
callbacks that are defined inside a function, nor what runs while a module is imported or the parser is built, nor the
other rooms: how files are parsed, data opened, weights loaded, code hashed.

A reader of commit b345c18 counted about 75 for `run`; by this rule it has 66, and `run --jobs 2` 94.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

WAY = ("cli", "runs", "engines", "isolation", "records", "streams")
NAMES = "tta_bench.records.folder"
KINDS = ("run", "run --jobs 2", "finished run")
RUN = ["run", "--suite", "digits-c-5", "--methods", "source", "--tasks", "contrast", "--seeds", "0", "--limit", "64"]
TWO_JOBS = ["--tasks", "contrast,fog", "--jobs", "2"]  # a cell for each: a worker without one may end before `adapt`

# Runs at the start of every process. It writes a line for each function at once: workers are killed, not closed.
HOOK = """
import os, sys, time
home, trace, seen = os.environ["TTA_WALK_HOME"], os.environ["TTA_WALK_OUT"], set()


def note(module, name):
    out = os.open(trace, os.O_APPEND | os.O_WRONLY)  # each time: a forked process closes what it inherits
    os.write(out, f"{time.monotonic_ns()} {os.getpid()} {module} {name}\\n".encode())
    os.close(out)


def is_set_up(frame):
    # Whether a module is imported, or the parser is built.
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(home):
            return frame.f_globals["__name__"] != "__main__"
        if frame.f_code.co_name == "parser" and frame.f_code.co_filename.endswith("cli/main.py"):
            return True
        frame = frame.f_back
    return False


def caller(frame):
    # The file of tta_bench that led here, maybe through the standard library.
    frame = frame.f_back
    while frame is not None and not frame.f_code.co_filename.startswith(home):
        frame = frame.f_back
    return frame.f_code.co_filename if frame else ""


def is_read(frame, name):
    # A property, or an attribute that a property makes.
    found = frame.f_globals
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else vars(found).get(part) if found is not None else None
    return type(found).__name__ in ("property", "cached_property")


def watch(frame, event, _):
    code = frame.f_code
    if event != "call" or code in seen:
        return
    name, file = code.co_qualname if hasattr(code, "co_qualname") else code.co_name, code.co_filename
    module = frame.f_globals.get("__name__") or ""
    if module.startswith("tta_bench_methods.") and code.co_name == "adapt":
        note("adapt", "adapt")
        sys.setprofile(None)
        return
    if module.startswith("tta_bench.report") and not is_set_up(frame):
        note("report", "report")
    if not file.startswith(home) or not code.co_flags & 1 or code.co_name.startswith(("_", "<")) or "<" in name:
        return
    if caller(frame) != file and not is_set_up(frame) and not is_read(frame, name):
        seen.add(code)
        note(module, name)


sys.setprofile(watch)
"""


def passed(words: list[str], folder: Path) -> list[tuple[str, str]]:
    """(module, function) of a command, in order; until `adapt`, or until the report."""
    import tta_bench

    (folder / "sitecustomize.py").write_text(HOOK)
    trace = folder / "trace"
    trace.write_text("")
    given = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TTA_WALK_HOME": str(Path(tta_bench.__file__).parent),
        "TTA_WALK_OUT": str(trace),
    }
    given.pop("TTA_BENCH_IN_PROCESS", None)
    command = [sys.executable, "-m", "tta_bench", *words, "--out", str(folder / "run")]
    subprocess.run(command, env=given, check=True, stdout=subprocess.DEVNULL)
    lines = sorted(line.split(" ", 3) for line in trace.read_text().splitlines())
    found: dict[tuple[str, str], None] = {}
    for _, _, module, name in lines:
        if module in ("adapt", "report"):
            break
        found.setdefault((module, name))
    return list(found)


def walk(kind: str) -> list[str]:
    """What a kind of run passes."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "finished run":
            passed(RUN, Path(folder))
        found = passed([*RUN, *(TWO_JOBS if "--jobs" in kind else [])], Path(folder))
    on_way = [pair for pair in found if pair[0].split(".")[1:2] and pair[0].split(".")[1] in WAY]
    return [f"{module.removeprefix('tta_bench.')}  {name}" for module, name in on_way if module != NAMES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the functions")
    args = parser.parse_args()
    for title in KINDS:
        found = walk(title)
        rooms = Counter(re.split(r"[. ]", name)[0] for name in found).most_common()
        print(f"{title}: {len(found)} ({', '.join(f'{room} {count}' for room, count in rooms)})", flush=True)
        if args.list:
            print("\n".join(f"  {name}" for name in found), flush=True)


if __name__ == "__main__":
    main()
