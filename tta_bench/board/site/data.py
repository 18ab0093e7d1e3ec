"""The site's data: scripts that a page loads when it needs them, because a page from disk may not fetch files.

One file per row (a bit per image: was the prediction right?), one with the streams of a suite, one per task with the
order of its images. Curves and differences are computed from these in the browser.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tta_bench.board.site.gather import Stream, order_of, streams_of
from tta_bench.board.site.suites import SuiteBoard, slug
from tta_bench.board.submission import Submission
from tta_bench.data.seeding import seed_of
from tta_bench.report.page.templates import script_json
from tta_bench.report.stats import dense

Files = Iterator[tuple[str, bytes]]


def data_files(board: SuiteBoard, submissions: Mapping[str, Submission]) -> Files:
    """Names, as in `data/digits-c-5/streams.js`, and contents."""
    found = list(streams_of(list({row.run.id: row.run for row in board.rows}.values())))
    numbers = {stream: number for number, (_, stream) in enumerate(found)}
    yield _file(board, "streams", [_described(stream) for stream in numbers])
    by_task: dict[str, dict[str, str]] = defaultdict(dict)
    for run, stream in found:
        (index,), size = dense([order_of(submissions[run.id], stream)])
        content = index.astype("<u2" if size <= 2**16 else "<u4").tobytes()
        by_task[stream.name][str(numbers[stream])] = _text(content)
    for task, orders in by_task.items():
        yield _file(board, f"order-{slug(task)}", orders)
    for row in board.rows:
        bits = {str(numbers[played.stream]): _text(played.bits) for played in row.row.streams}
        batch = row.row.streams[0].batch_size if row.row.streams else 1
        yield _file(board, f"row-{row.id}", {"batch": batch, "bits": bits})


def _described(stream: Stream) -> dict[str, Any]:
    state: Any = np.random.PCG64(seed_of("bootstrap", stream.name, stream.seed)).state["state"]
    return {
        "task": stream.name,
        "order": f"order-{slug(stream.name)}",
        "seed": stream.seed,
        "images": stream.images,
        "samples": stream.samples,
        "random": {name: f"{state[name]:x}" for name in ("state", "inc")},
    }


def _file(board: SuiteBoard, name: str, content: Any) -> tuple[str, bytes]:
    path = f"data/{board.slug}/{name}.js"
    return path, f"boardData({script_json(path)}, {script_json(content)});\n".encode()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
