"""tta-bench: a fair benchmark harness for test-time adaptation.

Importing this package imports nothing else: `--help` and reports stay fast, and Ctrl-C works at once (`__main__.py`).
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from tta_bench.api import Results, run
    from tta_bench.evaluation.call import evaluate
    from tta_bench.evaluation.result import Evaluation, Interrupted
    from tta_bench.method import Method
    from tta_bench.published.results import load_results
    from tta_bench.registry import build_method
    from tta_bench.report.frames import frame, predictions
    from tta_bench.report.metrics import Metric
    from tta_bench.version import __version__

__all__ = [
    "Evaluation",
    "Interrupted",
    "Method",
    "Metric",
    "Results",
    "__version__",
    "build_method",
    "evaluate",
    "frame",
    "load_results",
    "predictions",
    "run",
]

_HOME = {
    "Evaluation": "tta_bench.evaluation.result",
    "Interrupted": "tta_bench.evaluation.result",
    "Method": "tta_bench.method",
    "Metric": "tta_bench.report.metrics",
    "Results": "tta_bench.api",
    "build_method": "tta_bench.registry",
    "evaluate": "tta_bench.evaluation.call",
    "frame": "tta_bench.report.frames",
    "load_results": "tta_bench.published.results",
    "predictions": "tta_bench.report.frames",
    "run": "tta_bench.api",
    "__version__": "tta_bench.version",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'tta_bench' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # a notebook completes what is not imported yet
