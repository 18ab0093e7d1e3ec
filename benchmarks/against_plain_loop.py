"""CPU time and memory of `tta-bench run`, all processes, as ratios to a plain loop (plain_loop.py).

    python -m benchmarks.against_plain_loop [CASE…] [--images N] [--rounds N]
    python -m benchmarks.against_plain_loop --beside [--rounds N]    two jobs against one, a finished run, the witness

Command and loop take turns on the same JPEGs with one thread each. CPU time is that of a process and all its
descendants, which other programs on the machine change little. Memory is the peak of the sum of their proportional
set sizes (PSS): pages that processes share count once. It is sampled, so it needs Linux. The checkout is compiled
first, as `pip install` compiles a package: PYTHONDONTWRITEBYTECODE would let every process compile it again.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.plain_loop import ARCHITECTURE, BATCH
from tta_bench.datasets.imagenet import wnids

CHECKOUT = Path(__file__).parents[1]
EVERY = 0.5  # seconds between samples of memory: the kernel walks all pages for one, which takes CPU time
ALL_TASKS = ("fog", "snow", "contrast")
SUITE = f"""
name: photos
about: JPEGs of 224 pixels in ImageNet-C's layout
data: {{kind: imagenet-c, severity: 5, allow_partial: true}}
tasks: [{", ".join(ALL_TASKS)}]
model: none
batch_size: {BATCH}
methods: {{source: {{}}}}
"""


@dataclass(frozen=True)
class Case:
    """What is run, and the ratios that are allowed."""

    methods: str
    images: int  # of each task
    cpu: float
    memory: float
    tasks: str = "fog"


CASES = {
    "Source, 1,000 images": Case("source", 1000, cpu=1.15, memory=1.3),
    "TENT, 1,000 images": Case("tent", 1000, cpu=1.05, memory=1.1),
    "5 methods × 3 tasks × 128 images": Case(
        "source,tent,eta,sar,dpal", 128, cpu=1.10, memory=1.1, tasks=",".join(ALL_TASKS)
    ),
    "Source, 10,000 images": Case("source", 10_000, cpu=1.03, memory=1.3),
}


JOBS = Case("source,tent", 128, cpu=1.10, memory=3, tasks="fog,snow")
LONGEST_WALL, FINISHED_SECONDS, WITNESS_SHARE = 0.60, 1.0, 0.02  # goals of what `beside` measures


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    cpu: float  # seconds, all processes
    wall: float
    memory: float  # bytes


def make_tree(root: Path, each: int) -> Path:
    """Noisy gradients as JPEGs of about 20 kB, `each` per class (of 1,000) and task; a model, a suite, and bytecode."""
    for package in ("tta_bench", "methods", "benchmarks"):
        compileall.compile_dir(CHECKOUT / package, quiet=1)
    chance = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 224)] * 2), 2)
    first, *others = (root / "ImageNet-C" / task / "5" for task in ALL_TASKS)
    for number, wnid in enumerate(name for name in wnids() for _ in range(each)):
        pixels = 255 * (grid @ chance.random((2, 3))) / 2 + chance.normal(0, 6, (224, 224, 3))
        file = first / wnid / f"ILSVRC2012_val_{number + 1:08d}.JPEG"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, quality=88)
    for folder in others:
        shutil.copytree(first, folder, copy_function=os.link)
    (root / "photos.yaml").write_text(SUITE)
    command = [sys.executable, "-c", MAKE_WEIGHTS, ARCHITECTURE, str(root / "weights.safetensors")]
    subprocess.run(command, check=True)
    return root


# In its own process: a measured process shares torch's pages with this one otherwise. The head's scale brings
# the entropies of about half of the images below the thresholds of methods that filter.
MAKE_WEIGHTS = """
import sys, timm, torch
from safetensors.torch import save_file
torch.manual_seed(0)
model = timm.create_model(sys.argv[1])
with torch.no_grad():
    model.head.weight.mul_(15)
save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, sys.argv[2])
"""


def loop(root: Path, case: Case) -> list[str]:
    return [
        *(sys.executable, "-m", "benchmarks.plain_loop", str(root)),
        *(case.methods, case.tasks, str(case.images)),
    ]


def command(root: Path, case: Case, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "tta_bench", "run", "--suite", str(root / "photos.yaml"), "--data-root", str(root)),
        *("--model", f"{ARCHITECTURE}={root / 'weights.safetensors'}", "--methods", case.methods),
        *("--tasks", case.tasks, "--limit", str(case.images), "--device", "cpu", *more),
    ]


def measure(words: Sequence[str], folder: str | None = None) -> Cost:
    """Run a command, in a new folder unless one is given, and measure it and its descendants."""
    with tempfile.TemporaryDirectory() as new, tempfile.TemporaryFile("w+") as log:
        before, began, peak = children_seconds(), time.perf_counter(), 0
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(CHECKOUT)}
        process = subprocess.Popen(
            words,
            cwd=folder or new,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,  # workers have sessions of their own: Linux shares a busy CPU between sessions
        )
        while process.returncode is None:
            peak = max(peak, sum(map(_pss, family(process.pid))))
            with suppress(subprocess.TimeoutExpired):
                process.wait(EVERY)
        wall, cpu = time.perf_counter() - began, children_seconds() - before
        log.seek(0)
        if process.returncode:
            raise RuntimeError(f"{words} failed:\n{log.read()[-2000:]}")
    return Cost(cpu, wall, peak)


def children_seconds() -> float:
    """CPU time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # their own children included, since they wait for them
    return used.ru_utime + used.ru_stime


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for parent in found:  # grows meanwhile
        for thread in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, thread.read_text().split())
            except OSError:  # it has just ended
                continue
    return found


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def compare(root: Path, case: Case, rounds: int = 1) -> tuple[float, float, list[tuple[Cost, Cost]]]:
    """Ratios of CPU time and of peak memory, medians of the rounds, and what was measured."""
    pairs = []
    for number in range(rounds):
        sides = [command(root, case), loop(root, case)]
        first, second = (measure(words) for words in sides[:: 1 if number % 2 else -1])
        pairs.append((first, second) if number % 2 else (second, first))
    cpu = statistics.median(ours.cpu / theirs.cpu for ours, theirs in pairs)
    memory = statistics.median(ours.memory / theirs.memory for ours, theirs in pairs)
    return cpu, memory, pairs


def line(title: str, case: Case, cpu: float, memory: float, pairs: list[tuple[Cost, Cost]]) -> str:
    ours, theirs = (min(pair[side].cpu for pair in pairs) for side in (0, 1))
    most = [max(pair[side].memory for pair in pairs) / 2**20 for side in (0, 1)]
    return (
        f"| {title} | {ours:.1f} s / {theirs:.1f} s = **{cpu:.2f}** (goal {case.cpu:.2f}) "
        f"| {most[0]:.0f} MB / {most[1]:.0f} MB = **{memory:.2f}** (goal {case.memory:.1f}) |"
    )


@dataclass(frozen=True)
class Ratios:
    """What two processes at a time take, as multiples of one after the other."""

    cpu: float
    wall: float


def two_jobs(root: Path) -> tuple[Ratios, Ratios, str]:
    """Two jobs to one, the same for two plain loops with a task each, and a line of the table.

    The loops say what the machine allows: where two cores share a cache or are threads of one, both cost more at once.
    """
    tasks = [shlex.join(loop(root, replace(JOBS, tasks=task))) for task in JOBS.tasks.split(",")]
    one, two = measure(command(root, JOBS)), measure(command(root, JOBS, "--jobs", "2"))
    alone, both = measure(loop(root, JOBS)), measure(["sh", "-c", f"{tasks[0]} & {tasks[1]} && wait $!"])
    ours, loops = Ratios(two.cpu / one.cpu, two.wall / one.wall), Ratios(both.cpu / alone.cpu, both.wall / alone.wall)
    sizes = [cost.memory / 2**20 for cost in (two, one)]
    return (
        ours,
        loops,
        f"| two jobs / one: {two.cpu:.1f} s / {one.cpu:.1f} s of CPU time = **{ours.cpu:.2f}** (goal {JOBS.cpu:.2f}) "
        f"| wall **{ours.wall:.2f}** (goal {LONGEST_WALL:.2f}) | {sizes[0]:.0f} MB / {sizes[1]:.0f} MB "
        f"| two loops / one: CPU time {loops.cpu:.2f}, wall {loops.wall:.2f} |",
    )


def finished_run(root: Path) -> tuple[Cost, str]:
    """What a run costs that has nothing left to do, and a line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        words = command(root, replace(JOBS, methods="source", images=64))
        measure(words, folder)
        again = measure(words, folder)
    return again, (
        f"| finished run: {again.wall:.2f} s (goal {FINISHED_SECONDS:.0f}), {again.cpu:.2f} s of CPU time "
        f"| {again.memory / 2**20:.0f} MB |"
    )


def witness_share() -> tuple[float, str]:
    """The second witness's share of the demo's CPU time, in one process, and a line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", TIME_WITNESS, "run", "--in-process", "--device", "cpu"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(CHECKOUT)}
        done = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    witness, whole = map(float, done.stderr.splitlines()[-1].split())
    share = witness / whole
    return share, f"| witness: {witness:.2f} s / {whole:.1f} s = {share:.1%} (goal {WITNESS_SHARE:.0%}) |"


TIME_WITNESS = """
import sys, time
from tta_bench.isolation.adaptation import Pass
counted, spent = Pass.uncounted_work, []
def timed(self):
    before = time.process_time()
    try:
        return counted(self)
    finally:
        spent.append(time.process_time() - before)
Pass.uncounted_work = timed
from tta_bench.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(sum(spent), time.process_time(), file=sys.stderr)
"""


def beside(root: Path, rounds: int) -> None:
    """Print what is compared with something else than a loop."""
    for _ in range(rounds):
        print(two_jobs(root)[-1], flush=True)
        print(finished_run(root)[-1], flush=True)
        print(witness_share()[-1], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", type=int, help="numbers of cases, from 1")
    parser.add_argument("--images", type=int, help="of each task, instead of the case's")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--beside", action="store_true", help="two jobs, a finished run and the witness instead")
    asked = parser.parse_args()
    numbers = asked.cases or range(1, len(CASES) + 1)
    chosen = {title: CASES[title] for number, title in enumerate(CASES, 1) if number in numbers}
    if asked.images:
        chosen = {f"{title}, now {asked.images}": replace(case, images=asked.images) for title, case in chosen.items()}
    with tempfile.TemporaryDirectory() as folder:
        if asked.beside:
            beside(make_tree(Path(folder), 1), asked.rounds)
            return
        root = make_tree(Path(folder), max(1, max(case.images for case in chosen.values()) // 1000))
        print("| | CPU time | peak memory |\n|---|---|---|", flush=True)
        for title, case in chosen.items():
            print(line(title, case, *compare(root, case, asked.rounds)), flush=True)


if __name__ == "__main__":
    main()
