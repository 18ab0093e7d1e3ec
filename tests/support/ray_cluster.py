"""A real Ray cluster of two nodes on this host, for tests."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from typing import Any

STORE = 80_000_000  # bytes of shared memory per node; nothing is stored


def missing() -> str:
    """Why Ray cannot run here; empty if it can."""
    return "" if importlib.util.find_spec("ray") else "Ray is not installed"


class Cluster:
    """Two nodes with one CPU each: a head, and a second node that may be lost."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as Nodes

        # Clusters of one machine would share the file that names the current one. The paths of sockets must be short.
        self._folder = tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True)
        self._before = os.environ.get("RAY_TMPDIR")
        os.environ["RAY_TMPDIR"] = self._folder.name
        self._nodes: Any = Nodes(initialize_head=True, head_node_args={**self._size(), "include_dashboard": False})
        self._second: Any = self._nodes.add_node(**self._size())
        self._nodes.wait_for_nodes()

    @property
    def address(self) -> str:
        return str(self._nodes.address)

    def kill_node(self) -> None:
        """Kill the second node's daemon."""
        self._kill(self._second, "raylet")

    def kill_head(self) -> None:
        self._kill(self._nodes.head_node, "gcs_server")

    def stop(self) -> None:
        self._nodes.shutdown()
        self._folder.cleanup()
        os.environ.pop("RAY_TMPDIR", None)
        if self._before is not None:
            os.environ["RAY_TMPDIR"] = self._before

    @staticmethod
    def _size() -> dict[str, int]:
        return {"num_cpus": 1, "object_store_memory": STORE}

    @staticmethod
    def _kill(node: Any, name: str) -> None:
        for info in node.all_processes[name]:
            os.kill(info.process.pid, signal.SIGKILL)
