"""TensorBoard: one event file per cell with its curves and hyperparameters, and one with the tables as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tta_bench.export.base import Exporter
from tta_bench.export.content import Content, Run
from tta_bench.report import render


class Tensorboard(Exporter):
    """Event files, written by tensorboard itself: needs neither torch nor TensorFlow."""

    package, install, then = "tensorboard", "tta-bench[tensorboard]", "tensorboard --logdir {out}"

    def write(self, content: Content, out: Path) -> None:
        places: dict[str, str] = {}
        for run in content.runs:
            name = "/".join(_file_name(part) for part in (run.suite, run.stream, f"seed{run.seed}", run.method))
            if places.setdefault(name, run.key) != run.key:  # another model, limit or scenario
                name = f"{name}-{run.key}"
            _write(out / name, _events(run))
        _write(out / "tables", [_text(name, render.markdown(table)) for name, table in content.tables.items()])


def _events(run: Run) -> list[Any]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import summary_v2

    plain = {key: _plain(value) for key, value in {**run.conditions, **run.settings, "method": run.method}.items()}
    found = [Event(wall_time=run.finished, summary=summary_v2.hparams_pb(plain, trial_id=run.key))]
    last = max(run.steps, default=0)
    series = {**run.curves, **{f"summary/{key}": ((last, value),) for key, value in run.numbers.items()}}
    for tag, points in series.items():
        for images, value in points:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            found.append(Event(wall_time=run.finished, step=images, summary=summary))
    return found if run.is_done else [*found, _text("failed", run.reason)]


def _text(tag: str, markdown: str) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.plugins.text import metadata

    content = TensorProto(dtype="DT_STRING", string_val=[markdown.encode()])
    about = metadata.create_summary_metadata(tag, "")
    return Event(summary=Summary(value=[Summary.Value(tag=tag, metadata=about, tensor=content)]))


def _write(folder: Path, events: list[Any]) -> None:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for event in events:
        writer.add_event(event)
    writer.close()


def _plain(value: Any) -> bool | float | str:
    """The only types that a hyperparameter may have."""
    return value if isinstance(value, bool | float | str) else float(value) if isinstance(value, int) else str(value)


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.=+, ()-]", "_", text).strip(". ") or "_"
