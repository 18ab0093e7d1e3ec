"""Workers that somebody else starts: a job file for Kubernetes, PBS, LSF or a second terminal."""

from __future__ import annotations

from typing import Any

from tta_bench.engines.alive import Life
from tta_bench.engines.base import ENDED, UNKNOWN, WAITING, Engine, State
from tta_bench.engines.job import JobFolder
from tta_bench.errors import UserError


class Manual(Engine):
    """Writes a job and starts nothing: each worker is a `tta-bench work FOLDER JOB INDEX` of the user's."""

    starts_workers = False

    def submit(self, job: JobFolder, workers: int) -> dict[str, Any]:
        return {}

    def state(self, job: JobFolder) -> list[State]:
        lives = [Life.read(job.life_file(index)) for index in range(job.handle["workers"])]
        return [State(ENDED if life.exit else UNKNOWN if life.at else WAITING) for life in lives]

    def cancel(self, job: JobFolder) -> None:
        raise UserError(f"job {job.name}: its workers were started by hand: end them where they run")
