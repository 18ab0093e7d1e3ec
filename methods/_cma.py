"""The covariance matrix adaptation strategy (CMA-ES) of the package `cma`, with random numbers of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tta_bench.errors import UserError

Solutions = NDArray[np.float64]


class Cma:
    """Samples candidate solutions around a mean that moves towards the better ones."""

    def __init__(self, dimensions: int, population_size: int, seed: int) -> None:
        try:
            import cma
        except ImportError as error:
            raise UserError("foa needs the package cma: pip install 'tta-bench[foa]'") from error
        # Left alone, cma seeds and draws from numpy's global generator. This one gives the same numbers.
        draws = np.random.RandomState(seed).randn
        options = {"seed": np.nan, "randn": draws, "popsize": population_size, "maxiter": -1, "verbose": -9}
        self._strategy: Any = cma.CMAEvolutionStrategy(dimensions * [0.0], 1.0, inopts=options)

    def ask(self) -> Solutions:
        """New candidates [population, dimensions]."""
        return np.stack(self._strategy.ask())

    def tell(self, solutions: Solutions, fitness: list[float]) -> None:
        """Move by what the candidates, and perhaps one more, are worth; less is better."""
        self._strategy.tell(list(solutions), fitness)

    @property
    def mean(self) -> Solutions:
        return np.asarray(self._strategy.mean)
