"""The installed version of this package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("tta-bench")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+uninstalled"
