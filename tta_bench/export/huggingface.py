"""Hugging Face: a dataset folder with Parquet files and a card, ready for `hf upload`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tta_bench.export.base import Exporter
from tta_bench.export.content import Content
from tta_bench.report import render

if TYPE_CHECKING:
    import pandas as pd

FILES = {
    "runs": "one row per cell and task: accuracy, cost, settings and environment",
    "curves": "one row per batch of each cell",
    "predictions": "one row per image of each cell",
}


class HuggingFace(Exporter):
    """Three tables as Parquet, each a configuration of one dataset, and the report's tables in its card."""

    package, install = "pyarrow", "tta-bench[huggingface]"
    then = "hf upload OWNER/NAME {out} --repo-type dataset"

    def write(self, content: Content, out: Path) -> None:
        settings = [json.dumps(value, sort_keys=True) for value in content.frame["settings"]]
        found = {"runs": content.frame.assign(settings=settings), "curves": _curves(content)}
        if content.predictions is not None:
            found["predictions"] = content.predictions
        else:
            del found["curves"]
        for name, frame in found.items():
            frame.attrs.clear()  # pandas would write the notes into the file's metadata; the card has them
            frame.to_parquet(out / f"{name}.parquet", engine="pyarrow", index=False)
        (out / "README.md").write_text(card(content, tuple(found)), encoding="utf-8")


def card(content: Content, files: tuple[str, ...]) -> str:
    """The dataset's card: its head is for the hub, the rest for readers."""
    configs = [f"- config_name: {name}\n  data_files: {name}.parquet" for name in files]
    head = ["---", f"pretty_name: {json.dumps(f'tta-bench: {content.name}')}", "tags:", "- test-time-adaptation"]
    about = [f"- `{name}`: {FILES[name]}" for name in files]
    notes = [f"- {render.markdown_prose(note)}" for note in content.notes]
    tables = [render.markdown(table) for table in content.tables.values()]
    parts = [
        "\n".join([*head, "configs:", *configs, "---"]),
        f"# Test-time adaptation on {content.name}",
        "Results of tta-bench, exported from the records of its runs. Accuracies are in percent.",
        "\n".join(about),
        *(["\n".join(notes)] if notes else []),
        *tables,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _curves(content: Content) -> pd.DataFrame:
    import pandas as pd

    lines: list[dict[str, object]] = []
    for run in content.runs:
        own = {"suite": run.suite, "stream": run.stream, "seed": run.seed, "method": run.method, "cell": run.key}
        lines += [{**own, "images": images, **values} for images, values in run.steps.items()]
    made: pd.DataFrame = pd.DataFrame(lines)
    return made
