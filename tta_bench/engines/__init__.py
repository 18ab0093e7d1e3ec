"""Engines run a job's cells on several processes: of this machine, of Slurm, of Ray.

The run folder is the queue. A supervisor (`supervise.py`) writes a job file and lets an engine start workers. Each
worker (`loop.py`) claims the next cell that has no record and no living claim (`queue.py`), runs and saves it.
"""

from __future__ import annotations

from functools import cache

from tta_bench import plugins
from tta_bench.engines.base import Engine
from tta_bench.plugins import Group

__all__ = ["Engine", "engine_class", "engines"]


@cache
def engines() -> Group:
    """The installed engines; read once, imports none of them."""
    return Group("engine", plugins.claims("engine"))


def engine_class(name: str) -> type[Engine]:
    """An engine by its name."""
    cls: type[Engine] = engines().load_class(name, Engine)
    return cls
