"""tta-bench: a fair benchmark harness for test-time adaptation.

Importing this package does not import torch: `--help` and reports stay quick.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tta_bench.method import Method
    from tta_bench.registry import build_method

__all__ = ["Method", "__version__", "build_method"]

try:
    __version__ = version("tta-bench")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+uninstalled"


def __getattr__(name: str) -> Any:
    if name == "Method":
        from tta_bench.method import Method

        return Method
    if name == "build_method":
        from tta_bench.registry import build_method

        return build_method
    raise AttributeError(f"module 'tta_bench' has no attribute '{name}'")
