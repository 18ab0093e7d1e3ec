"""What tests of the command line share: the type of the `cli` fixture, and small suites."""

from __future__ import annotations

from collections.abc import Callable

Cli = Callable[..., tuple[int, str, str]]

SMALL = """
name: small
about: two tasks of the embedded digits
data: {kind: digits-c, severity: 5}
tasks: [contrast, brightness]
model: digits-vit
batch_size: 32
methods: {source: {}, tent: {lr: 1e-3}}
"""

TWELVE_CELLS = """
name: shared
about: a test
model: digits-vit
batch_size: 32
tasks: [contrast, fog, snow]
data: {kind: digits-c, severity: 5}
methods: {source: {}, tent: {}}
seeds: [0, 1]
"""
