"""Messages between a host and the worker process that adapts for it.

The host trusts no worker: messages from one are plain typed data, never pickled objects. Images pass through shared
memory, since a pipe would block the host while a method computes.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Assignment(msgspec.Struct, tag=True):
    """To a worker: adapt one method to one stream."""

    setup: bytes  # a pickled Setup without its model
    model: str  # a name that `models.load` takes
    weights: str  # the hash that these weights must have
    method_code: str  # the hash that the method's code must have
    needs_source: bool
    source_labels: bytes = b""  # int64; empty if the method uses none
    known: bytes | None = None  # safetensors: what another cell learned
    cost: dict[str, Any] | None = None  # of learning it


class Batch(msgspec.Struct, tag=True):
    """To a worker: the next batch is at this place of the shared memory."""

    reader: int  # the reader that asked
    offset: int
    shape: list[int]
    memory: int  # size of the shared memory, which may have grown


class End(msgspec.Struct, tag=True):
    """To a worker: there are no more batches."""

    reader: int


class NextSource(msgspec.Struct, tag=True):
    """From a worker: send the next batch of source images."""

    reader: int


class NextBatch(msgspec.Struct, tag=True):
    """From a worker: send the next batch of the stream."""

    reader: int  # an earlier reader may have stopped with a batch on its way


class Learned(msgspec.Struct, tag=True):
    """From a worker: the method learned this from source images."""

    state: bytes  # safetensors
    cost: dict[str, Any]


class Answered(msgspec.Struct, tag=True):
    """From a worker: the answer to the next batch."""

    table: bytes  # float32
    rows: int
    probabilities: bytes  # float32; of all classes, since only the host knows which one is right


class Finished(msgspec.Struct, tag=True):
    """From a worker: the stream is done."""

    measured: dict[str, Any]


class CodeChanged(msgspec.Struct, tag=True):
    """From a worker: it imported other code of the method than the cell names."""


class Raised(msgspec.Struct, tag=True):
    """From a worker: the method, or something that it needs, raised an exception."""

    line: str
    traceback: str
    is_expected: bool  # CellFailed or UserError: the line says everything


ToWorker = Assignment | Batch | End
FromWorker = NextSource | NextBatch | Learned | Answered | Finished | CodeChanged | Raised

encode = msgspec.msgpack.encode
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
