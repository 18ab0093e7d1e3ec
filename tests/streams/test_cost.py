"""What an order of very many images costs: memory in proportion to its images, and seconds."""

from __future__ import annotations

import pytest

from benchmarks.stream_cost import CLASSES, cost, texts

MOST_BYTES = 160  # per image of the data or of the stream, whichever are more; a position has 8
PER_PAIR = 80  # bytes more per pair of a class and a slot, which a Dirichlet draw has
MOST_SECONDS = 60  # of CPU for a million images; label-shift, which draws image by image, takes most


@pytest.mark.parametrize("text", ["mixed-correlated", "petta-20", "unitta-iui1", "forgetting"])
def test_orders_take_bounded_memory(text: str) -> None:
    found = cost(text, 300_000)
    assert found.bytes < MOST_BYTES * max(found.images, found.held) + PER_PAIR * CLASSES**2
    assert found.images >= 100_000


@pytest.mark.slow
@pytest.mark.parametrize("text", texts())
def test_orders_of_a_million_images_take_bounded_memory_and_seconds(text: str) -> None:
    found = cost(text)
    assert found.held >= 150_000
    assert found.bytes < MOST_BYTES * max(found.images, found.held)
    assert found.seconds < MOST_SECONDS
