"""tta-bench: a fair benchmark harness for test-time adaptation.

Importing this package imports neither torch nor pandas: `--help` and reports stay fast.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tta_bench.api import Results, run
    from tta_bench.method import Method
    from tta_bench.records.live import Live
    from tta_bench.registry import build_method
    from tta_bench.report.frames import frame, predictions

__all__ = ["Live", "Method", "Results", "__version__", "build_method", "frame", "predictions", "run"]

_HOME = {
    "Live": "tta_bench.records.live",
    "Method": "tta_bench.method",
    "Results": "tta_bench.api",
    "build_method": "tta_bench.registry",
    "frame": "tta_bench.report.frames",
    "predictions": "tta_bench.report.frames",
    "run": "tta_bench.api",
}

try:
    __version__ = version("tta-bench")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+uninstalled"


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'tta_bench' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # a notebook completes what is not imported yet
