"""Post-hoc export of run folders to experiment trackers and dataset hubs, from records alone: no torch, no network.

One file per target. A target is a class behind the entry-point group `tta_bench.exporters`, so a package can add one.
What a target needs is imported only while it writes.
"""

from __future__ import annotations

from tta_bench.export.base import Exporter, export_runs, exporter, exporters
from tta_bench.export.content import Content, Run

__all__ = ["Content", "Exporter", "Run", "export_runs", "exporter", "exporters"]
