"""The site's statistics are those of `tta-bench compare` to the last digit shown, on random streams.

A site compares any two rows in the browser: pairs grow with the square of the rows, so they cannot all be stored.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from tta_bench.board.site.pages import text_of
from tta_bench.data.seeding import seed_of
from tta_bench.measure.student import sign_test
from tta_bench.report.differences import TaskDifference, probability
from tta_bench.report.grouping import grouped
from tta_bench.report.stats import Blocks, Estimate, Stream, estimate, holm, images_won

NODE = shutil.which("node")
SCRIPTS = ("random.js", "student.js", "autocorrelation.js", "stats.js")
ASK = """
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const typed = ({ difference, index, ...more }) =>
  ({ ...more, difference: Int8Array.from(difference), index: Uint32Array.from(index) });
const shown = ({ difference, low, high, p }) => [points(difference), points(low), points(high), probability(p)];
console.log(JSON.stringify(cases.map((streams) => {
  const { tasks, overall } = differences(streams.map(typed));
  return [shown(overall), ...tasks.map((task) =>
    [...shown(task), probability(task.holm), `${task.onlyA} ${task.onlyB}`, task.verdict])];
})));
"""


def random_streams(rng: np.random.Generator) -> list[Stream]:
    """Some tasks and seeds; short and long streams, with and without memory; sometimes two methods that agree."""
    size, batches = int(rng.choice([1, 5, 16, 64])), int(rng.choice([1, 2, 5, 11, 12, 23, 24, 40, 90]))
    n = max(1, size * batches - int(rng.integers(size)))  # the last batch may be short
    lead, memory = rng.choice([0.0, 0.02, 0.3]), rng.choice([0.0, 0.9])
    streams = []
    for task in range(int(rng.integers(1, 4))):
        for seed in range(int(rng.integers(1, 4))):
            mood = np.zeros(batches)
            for i in range(1, batches):
                mood[i] = memory * mood[i - 1] + 0.1 * rng.standard_normal()
            a, b = rng.random(n) < 0.6, rng.random(n) < 0.6 + lead + np.repeat(mood, size)[:n] * bool(lead)
            change = (b.astype(np.int8) - a.astype(np.int8)) * np.int8(bool(lead))
            streams.append(Stream(f"task{task}", f"images {task % 2}", seed, change, rng.permutation(n), size))
    return streams


def as_data(stream: Stream) -> dict[str, Any]:
    state: Any = np.random.PCG64(seed_of("bootstrap", stream.task, stream.seed)).state["state"]
    return {
        "task": stream.task,
        "images": stream.images,
        "seed": stream.seed,
        "batch": stream.batch_size,
        "difference": stream.difference.tolist(),
        "index": stream.index.tolist(),
        "random": {name: f"{state[name]:x}" for name in ("state", "inc")},
    }


def shown(found: Estimate) -> list[str]:
    """An estimate as `compare` prints it; the page has a true minus."""
    numbers = [f"{100 * value:+.2f}".replace("-", "−") for value in (found.difference, found.low, found.high)]
    return [*numbers, probability(found.p)]


def expected(streams: list[Stream]) -> list[list[str]]:
    blocks = [Blocks(stream) for stream in streams]
    tasks = grouped(streams, lambda stream: stream.task)
    won = [images_won(those) for those in tasks.values()]
    p = [sign_test(*counts) for counts in won]
    made = [
        TaskDifference(task, 0, 0, estimate([b for b in blocks if b.stream.task == task]), *counts, own, adjusted)
        for task, counts, own, adjusted in zip(tasks, won, p, holm(p), strict=True)
    ]
    lines = [[*shown(t.estimate), probability(t.holm), f"{t.only_a} {t.only_b}", t.verdict] for t in made]
    return [shown(estimate(blocks)), *lines]


@pytest.mark.skipif(NODE is None, reason="no node found: apt-get install nodejs")
def test_the_site_computes_what_compare_does() -> None:
    rng = np.random.default_rng(23)
    cases = [random_streams(rng) for _ in range(60)]
    script = "\n".join([*map(text_of, SCRIPTS), ASK])
    asked = json.dumps([[as_data(stream) for stream in streams] for streams in cases])
    assert NODE is not None
    done = subprocess.run([NODE, "-e", script], input=asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [expected(streams) for streams in cases]


@pytest.mark.skipif(NODE is None, reason="no node found: apt-get install nodejs")
def test_numbers_are_rounded_as_python_does() -> None:
    values = [0.125, 0.375, -0.125, 1.005, 2.5, 0.65625, 0.15625, 12.345, 0.0, -0.004, 99.995]
    asked = f"console.log(JSON.stringify({json.dumps(values)}.map((v) => [1, 2, 4].map((d) => fixed(v, d)))));"
    assert NODE is not None
    done = subprocess.run([NODE, "-e", text_of("stats.js") + asked], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[f"{value:.{digits}f}" for digits in (1, 2, 4)] for value in values]
