"""A worker process: adapts for a host in another process, one cell after the other.

It has the model and the method. The host sends images batch by batch and keeps the labels.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from multiprocessing.connection import Connection

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from tta_bench import registry
from tta_bench.errors import CellFailed, UserError, reason
from tta_bench.isolation import messages
from tta_bench.isolation.adaptation import adapt
from tta_bench.isolation.adapter import start
from tta_bench.isolation.logits import Answer
from tta_bench.isolation.messages import (
    Answered,
    Assignment,
    Batch,
    CodeChanged,
    End,
    Finished,
    Learned,
    NextBatch,
    NextSource,
    Raised,
)
from tta_bench.isolation.prepared import Cost, State
from tta_bench.measure import environment
from tta_bench.measure.clock import synchronise
from tta_bench.measure.process import open_files
from tta_bench.models import source as models
from tta_bench.models.source import SourceModel

TRACE = 20_000  # characters of a traceback that are kept


class RemoteHost:
    """The host, as seen from the worker."""

    def __init__(self, connection: Connection, memory: int, assignment: Assignment, batch_size: int) -> None:
        self._connection = connection
        self._file = memory
        self._memory = np.empty(0, np.uint8)
        self._assignment = assignment
        self._batch_size = batch_size

    def known(self) -> tuple[State, Cost] | None:
        if self._assignment.known is None or self._assignment.cost is None:
            return None
        return load(self._assignment.known), Cost(**self._assignment.cost)

    def source(self) -> Iterator[Tensor] | None:
        return self._batches(NextSource(0)) if self._assignment.needs_source else None

    def source_labels(self) -> Iterator[Tensor]:
        labels = torch.from_numpy(np.frombuffer(self._assignment.source_labels, np.int64).copy())
        return iter(labels.split(self._batch_size))

    def batches(self) -> Iterator[Tensor]:
        return self._batches(NextBatch(1))

    def learned(self, state: State, cost: Cost) -> None:
        plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}
        self.send(Learned(save(plain), asdict(cost)))

    def answer(self, answer: Answer) -> None:
        table, p = (np.ascontiguousarray(part, np.float32).tobytes() for part in (answer.table, answer.probabilities))
        self.send(Answered(table, len(answer.table), p))

    def send(self, message: messages.FromWorker) -> None:
        self._connection.send_bytes(messages.encode(message))

    def _batches(self, ask: NextSource | NextBatch) -> Iterator[Tensor]:
        """Asks for the next batch when one arrives, so that the host reads it while the method computes."""
        self.send(ask)
        while True:
            message = messages.to_worker.decode(self._connection.recv_bytes())
            if isinstance(message, Assignment) or message.reader != ask.reader:
                continue  # requested by a method that then stopped reading source images
            if isinstance(message, End):
                return
            self.send(ask)
            yield self._at(message)

    def _at(self, batch: Batch) -> Tensor:
        if len(self._memory) < batch.memory:
            self._memory = np.frombuffer(mmap.mmap(self._file, batch.memory), np.uint8)
        size = int(np.prod(batch.shape))
        return torch.from_numpy(self._memory[batch.offset : batch.offset + size].reshape(batch.shape))


def serve(connection: Connection, memory: int) -> None:
    """Work until the host closes the connection."""
    while True:
        try:
            content = connection.recv_bytes()
        except (EOFError, OSError):
            return
        assignment = messages.to_worker.decode(content)
        if isinstance(assignment, Assignment):  # others were sent to one that failed meanwhile
            _work(assignment, connection, memory)


def _work(assignment: Assignment, connection: Connection, memory: int) -> None:
    setup = pickle.loads(assignment.setup)
    host = RemoteHost(connection, memory, assignment, setup.batch_size)
    try:
        model = _model(assignment.model)
        if model.weights_hash != assignment.weights:
            raise UserError(f"model '{assignment.model}' changed while the run was starting: start it again")
        if _imported_code(setup.method) != assignment.method_code:
            host.send(CodeChanged())
            return
        start(setup)
        _warm_up(assignment.model, setup.device)
        files = Counter(open_files())
        measured = adapt(replace(setup, model=model), host)
        if left := sorted((Counter(open_files()) - files).elements()):
            measured.remarks.append(f"left {len(left)} files open, as {left[0]}")
        host.send(Finished(asdict(measured)))
    except BaseException as error:  # a method may raise anything, KeyboardInterrupt and SystemExit included
        is_expected = isinstance(error, (CellFailed, UserError))
        trace = "" if is_expected else traceback.format_exc()
        host.send(Raised(reason(error), trace[-TRACE:], is_expected))
    environment.release(setup.device)


def _imported_code(method: str) -> str:
    """The hash of a method's code, taken once: when this process first imports it."""
    registry.installed().load(method)
    return registry.installed().code(method)


@lru_cache(maxsize=4)
def _model(name: str) -> SourceModel:
    return models.load(name)


@lru_cache(maxsize=4)
@torch.no_grad()
def _warm_up(name: str, device: torch.device) -> None:
    """Let the libraries behind a model start before the first timed batch, on a copy of it and on black images."""
    model = _model(name)
    patches = getattr(model.network, "patch_embed", None)
    size = getattr(patches, "img_size", None) or (model.input_size, model.input_size)  # a ViT's may be no square
    with suppress(Exception):  # whatever a model refuses here, its real images decide
        model.fresh(device)(torch.zeros(2, 3, *size, device=device))
    synchronise(device)


def main(connection: int, memory: int) -> None:
    """Entry point of the process; the arguments are file descriptors that it inherits."""
    for number in (signal.SIGINT, signal.SIGTERM):  # terminals and schedulers send them to all; the host decides
        signal.signal(number, signal.SIG_IGN)
    try:
        serve(Connection(connection), memory)
    except OSError:  # a method closed the connection, or the host has ended: nobody reads the error
        os._exit(1)
