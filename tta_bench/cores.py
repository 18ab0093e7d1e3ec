"""How many processor cores this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that the system lets this process run on; a batch system often gives fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
