"""Engines run a job's cells on several processes: of this machine, of Slurm, of Ray.

A coordinator (`coordinate.py`) writes a job file and lets an engine start workers. Each worker (`work.py`) takes the
next cell that nobody has, and writes records to the run folder and its progress to a journal beside the job file.
"""

from __future__ import annotations

from functools import cache

from tta_bench import plugins
from tta_bench.engines.base import Engine, Options
from tta_bench.plugins import Group

__all__ = ["Engine", "Options", "engine_class", "engines"]


@cache
def engines() -> Group:
    """The installed engines; read once, imports none of them."""
    return Group("engine", plugins.claims("engine"))


def engine_class(name: str) -> type[Engine]:
    """An engine by its name."""
    cls: type[Engine] = engines().load_class(name, Engine)
    return cls
