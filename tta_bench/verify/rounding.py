"""How far the predictions of two runs on one GPU can be apart because it takes sums in any order.

A method on a GPU without `--deterministic` gives other bits in each run. This is how far, step by step:

1. A sum of n terms of mixed sign is a random walk: its partial sums have a typical size of sqrt(j) after j terms, and
   each is rounded by u = 2^-24 of itself at most. Two orders differ by sqrt(n) u of the sum's size (root mean square).
   Where terms or results are rounded to a coarser step s (TF32, bf16), a difference d seldom crosses to the next step,
   but then counts s: sqrt(d s).
2. A network and its gradient are k sums, one after the other. Errors of different sums are independent and add as
   squares: sqrt(k n) u of a gradient's size.
3. An update that moves logits by 1 has an error of sqrt(k n) u. T updates have T such errors, again independent:
   sqrt(T k n) u.
4. A probability changes by at most half of what logits change by. Six times the root mean square is exceeded by two in
   a billion.
5. A prediction changes only where two classes are within twice this distance.

Assumed: k and n as below; norm layers and residual paths carry an error on without amplifying it; an update moves
logits by 1 at most; later updates do not amplify what earlier ones did; no decision (a threshold, a reset) falls
otherwise. What lies beyond the distance is not explained by the order of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from tta_bench.records.predictions import Predictions
from tta_bench.records.record import Record

UNIT = 2.0**-24  # of float32
STEPS = {"amp": 2.0**-8, "tf32": 2.0**-10}
SUMS = 200  # in sequence: a ViT-B has 12 blocks of 6 sums, forward and backward, its ends, and an update
TERMS = 2**14  # of the longest sum: a ViT-B at 224 px has 197 tokens in each of 64 images
DEVIATIONS = 6
GAPS = 1.0  # share of images per unit of distance between their two likeliest classes: as if spread evenly


def distance(record: Record) -> float:
    """By how much a probability of this cell can change with the order of sums."""
    spec, measured = record.cell.spec, record.measured
    backwards = (measured.sample_backwards + measured.prepare_backwards) / spec.batch_size
    updates = len(measured.batch_seconds) + backwards  # a batch may update statistics without a backward pass
    return after(updates, [step for name, step in STEPS.items() if getattr(spec, name)])


def after(updates: float, steps: Sequence[float] = ()) -> float:
    """The distance after so many updates, where numbers are rounded to these coarser steps, too."""
    error = sqrt(TERMS) * UNIT
    for step in steps:
        error = max(error, sqrt(error * step))
    return min(1.0, DEVIATIONS / 2 * error * sqrt(SUMS * (1 + updates)))


def complaint(was: Predictions, now: Predictions, limit: float) -> str:
    """What two orders of summation do not explain; empty if all is within this distance."""
    apart = float(np.abs(was.confidence.astype(float) - now.confidence).max(initial=0))
    changed = was.prediction != now.prediction
    both = (was.confidence.astype(float) + now.confidence)[changed]  # of two classes of an image, which share 1
    count, sure, most = int(changed.sum()), int((both > 1 + limit).sum()), int(1 + 2 * GAPS * limit * len(was))
    beyond = "another order of sums does not explain"
    if apart > limit:
        return f"{beyond} that confidences differ by up to {apart:.1e} (at most {limit:.1e})"
    if sure:
        return f"{beyond} that predictions differ where one class is likely ({sure} of {count})"
    return f"{beyond} that {count} predictions differ (at most {most})" if count > most else ""
