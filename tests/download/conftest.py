"""A website to download from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import downloads
from tests.support.servers import Website, serve
from tta_bench.download import transfer


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloads in small chunks, and tries again at once."""
    monkeypatch.setattr(transfer, "PAUSE", 0.001)
    monkeypatch.setattr(transfer, "CHUNK", 8192)


@pytest.fixture
def website(hurried: None) -> Iterator[Website]:
    """A server on loopback that has a small CIFAR-10-C.tar."""
    with serve(Website({"CIFAR-10-C.tar": downloads.TAR})) as site:
        yield site
