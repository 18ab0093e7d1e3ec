"""`tta_bench.evaluate`: the pass over a stream of `tta-bench run`, in this process and on the caller's batches.

result = tta_bench.evaluate("tent", model, loader)
print(result)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from tta_bench import registry
from tta_bench import settings as method_settings
from tta_bench.errors import UserError, third_party
from tta_bench.evaluation.given import Batches, SourceBatches, bar, class_count, prepared_model
from tta_bench.evaluation.result import BrokenStream, Evaluation, Interrupted
from tta_bench.isolation.adaptation import Pass
from tta_bench.isolation.adapter import Setup
from tta_bench.isolation.scores import Scorer
from tta_bench.measure import environment
from tta_bench.measure.process import Outside, process_state, restored
from tta_bench.method import Method
from tta_bench.models.precision import refuse_missing_bf16
from tta_bench.papers.baseline import BASELINE


def evaluate(
    method: str | type[Method] | Method,
    model: nn.Module,
    batches: Iterable[Any],
    *,
    settings: Mapping[str, Any] | None = None,
    source: Iterable[Any] | None = None,
    against: str | None = BASELINE,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    device: str | torch.device | None = None,
    amp: Literal["bf16"] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Evaluation:
    """Adapt to one stream and score it, with a fair Source beside it.

    `method` is a name (`tta-bench list methods`), a class, or an object that was built on `model`: it is reset first,
    and keeps what it learns. For a name or a class `settings` are its keyword arguments, and `model` stays as it is:
    method and Source work on copies. The model takes images in [0, 1]; one that does not normalise them itself gets
    `mean` and `std`. `batches` yields (images, labels), as a DataLoader does, and is iterated once. `source` yields
    clean images, or (images, labels), for a method that learns from them first. `device` is the model's by default.

    Random generators and other process state are afterwards as a loop over `batches` alone would leave them. Ctrl-C
    raises `Interrupted`, which holds what is done. Wrong input raises `tta_bench.errors.UserError`, one line; what a
    method raises itself passes through, and answers that are no logits raise `tta_bench.errors.CellFailed`.
    """
    if against not in (None, BASELINE):
        raise UserError(f"against: expected '{BASELINE}' or None, got {against!r}")
    if amp not in (None, "bf16"):
        raise UserError(f"amp: expected 'bf16' or None, got {amp!r}")
    if not isinstance(seed, int):
        raise UserError(f"seed: expected a whole number, got {seed!r}")
    if not isinstance(settings, Mapping | None):
        raise UserError(f"settings: expected a dictionary, as in {{'lr': 0.01}}, got {settings!r}")
    before = process_state()
    with Outside(before) as outside, restored(before) as changed:
        stream = Batches(batches, outside)
        place = _device(device, model)
        environment.start(place)
        if amp:
            refuse_missing_bf16(place)
        trained = prepared_model(model, method, mean, std)
        stream.classes = class_count(trained, stream.first, place)
        setup = Setup("", {}, trained, stream.classes, None, stream.size, place, amp=amp)
        rows = [_Row(BASELINE, setup, {}, None, outside)] if against else []
        rows.append(_Row(method, setup, _resolved(method, settings, seed), source, outside))
        try:
            _run(rows, stream, place, progress)
        except KeyboardInterrupt as stop:
            raise (Interrupted(_evaluation(rows, changed)) if rows[-1].scores.images else stop) from None
        except UserError as error:
            raise BrokenStream(str(error), _evaluation(rows, changed) if rows[-1].scores.images else None) from error
        for row in rows:
            row.look_closer()
    return _evaluation(rows, changed)


class _Row:
    """A method on its way through the stream."""

    def __init__(
        self,
        method: str | type[Method] | Method,
        setup: Setup,
        settings: dict[str, Any],
        source: Iterable[Any] | None,
        outside: Outside,
    ) -> None:
        self.is_built = isinstance(method, Method)
        self.name = method if isinstance(method, str) else _name(method)
        self.setup = replace(setup, method=self.name, settings=settings)
        built = method if isinstance(method, Method) else self._build(method)
        self.seen = Pass(self.setup, SourceBatches(self.name, built, source, setup.num_classes, outside), built)
        self.scores = Scorer()
        self.more: list[str] = []

    def _build(self, method: str | type[Method]) -> Method:
        setup = self.setup
        model = setup.model.fresh(setup.device)
        return registry.build_method(
            method, model, num_classes=setup.num_classes, batch_size=setup.batch_size, params=setup.settings
        )

    def look_closer(self) -> None:
        """Look for work outside the counted passes; not with the caller's own object, which would adapt further."""
        if not self.is_built:
            self.more = self.seen.uncounted_work()


def _run(rows: Sequence[_Row], stream: Batches, device: torch.device, progress: bool) -> None:
    with ExitStack() as stack:
        shown = stack.enter_context(bar(rows[-1].name, stream.promised, enabled=progress))
        for row in rows:
            stack.enter_context(row.seen.counted)
        while True:
            with rows[-1].seen.reading:
                batch = stream.next()
            if batch is None:
                return
            images, labels = batch
            # Each row gets its own copy: a method may write into it.
            answers = [row.seen.answer(images.to(device, copy=True)) for row in rows]
            indices = np.arange(len(images)) + rows[-1].scores.images
            for row, answer in zip(rows, answers, strict=True):
                row.scores.add(indices, labels, answer)
            shown(rows[-1].scores.accuracy)


def _evaluation(rows: Sequence[_Row], changed: Sequence[str]) -> Evaluation:
    """The evaluation of the last row, with Source beside it if it ran."""
    made: Evaluation | None = None
    for row in rows:
        measured = row.seen.measured()
        answered = -(-row.scores.images // row.setup.batch_size)  # a batch that was interrupted is left out
        left = [f"changed {name} (restored)" for name in changed] if row is rows[-1] else []
        measured = replace(
            measured,
            batch_seconds=measured.batch_seconds[:answered],
            memory={},  # of both rows together, so that it says nothing about one
            remarks=[*measured.remarks, *row.more, *left],
        )
        size, found = row.setup.batch_size, row.scores.predictions()
        made = Evaluation(row.name, row.setup.settings, size, found, measured, made)
    assert made is not None
    return made


def _resolved(method: str | type[Method] | Method, given: Mapping[str, Any] | None, seed: int) -> dict[str, Any]:
    """All settings of a method; a built one has its own."""
    if isinstance(method, Method):
        if given:
            raise UserError(f"settings: {_name(method)} is built already: give them to build_method, or give its class")
        return {}
    if isinstance(method, str):
        cls = registry.installed().load(method)
    elif isinstance(method, type) and issubclass(method, Method):
        cls = method
    else:
        raise UserError(f"method: expected a name, a subclass of tta_bench.Method or an object of one, got {method!r}")
    name = method if isinstance(method, str) else cls.__name__
    method_settings.check(name, cls, given or {})
    return method_settings.resolve(cls, given or {}, seed)


def _name(method: type[Method] | Method) -> str:
    return method.__name__ if isinstance(method, type) else type(method).__name__


def _device(given: str | torch.device | None, model: nn.Module) -> torch.device:
    if given is None:
        first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
        return first.device if first is not None else torch.device("cpu")
    with third_party("device"):
        return environment.pick_device(str(given))
