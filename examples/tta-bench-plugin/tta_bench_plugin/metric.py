"""A metric: a number of one stream from its stored predictions, shown with `tta-bench report RUN --metric NAME`."""

from __future__ import annotations

import numpy as np

from tta_bench import Metric
from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record


def median_confidence(predictions: Predictions, record: Record) -> float:
    """Half of the predictions are less sure than this."""
    return 100 * float(np.median(predictions.confidence))


MEDIAN_CONFIDENCE = Metric(median_confidence, "median conf. %", "half of the predictions are less sure", digits=1)
