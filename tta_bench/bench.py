"""Plans a run and carries it out: suite in, cells not yet in the store, records out."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import tta_bench
from tta_bench import environment, models, registry, settings
from tta_bench.cell import Cell, code_hash
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.errors import CellFailed, UserError
from tta_bench.method import Method
from tta_bench.models import SourceModel
from tta_bench.precision import refuse_missing_bf16
from tta_bench.record import Record
from tta_bench.runner import OnBatch, Work, run_cell
from tta_bench.store import Store, now
from tta_bench.stream import make_stream
from tta_bench.suite import Suite


@dataclass(frozen=True)
class Choices:
    """What a command line asks for beyond the suite."""

    methods: tuple[str, ...] = ()  # empty: those of the suite
    model: str | None = None
    seeds: tuple[int, ...] = ()
    limit: int | None = None
    batch_size: int | None = None
    device: str = "auto"
    data_root: Path | None = None
    amp: str | None = None
    compile: bool = False
    overrides: dict[str, settings.Settings] = field(default_factory=dict)


class Plan:
    """A suite with all choices made and checked: what is wrong with them is known before any time is spent."""

    def __init__(self, suite: Suite, choices: Choices) -> None:
        self.suite = replace(
            suite,
            model=choices.model or suite.model,
            seeds=choices.seeds or suite.seeds,
            batch_size=choices.batch_size or suite.batch_size,
        )
        self.limit = choices.limit
        self.device = environment.pick_device(choices.device)
        self.amp, self.compile = choices.amp, choices.compile
        if self.amp:
            refuse_missing_bf16(self.device)
        self.methods = {name: resolve(name, suite, choices) for name in choices.methods or tuple(suite.methods)}
        refuse_idle(choices, list(self.methods))
        self.dataset: Dataset = open_dataset(suite.data, suite.tasks, choices.data_root)
        self.model: SourceModel = models.load(self.suite.model)
        same_classes(self.model, self.dataset, suite.name)
        for name, given in self.methods.items():  # bad settings show now, not after an hour
            try_method(name, given, self.model, self.suite.batch_size)

    def __len__(self) -> int:
        return len(self.suite.tasks) * len(self.suite.seeds) * len(self.methods)

    def work(self) -> Iterator[Work]:
        """Every cell with what it needs; the methods follow each other on a task, so its images are read once."""
        source = self.dataset.source_images()
        for task in self.suite.tasks:
            images = self.dataset.open(task)
            for seed in self.suite.seeds:
                stream = make_stream(self.suite.name, task, seed, images.ids, limit=self.limit)
                for method, given in self.methods.items():
                    cell = self._cell(method, given, task, seed, stream.digest)
                    yield Work(cell, stream, images, source, self.model, self.device)

    def _cell(self, method: str, given: settings.Settings, task: str, seed: int, digest: str) -> Cell:
        cls = registry.installed().load(method)
        resolved = {**settings.defaults(cls), **given}
        if "seed" in resolved and "seed" not in given:
            resolved["seed"] = seed  # a method that draws random numbers draws them anew for each seed
        return Cell(
            suite=self.suite.name,
            suite_version=self.suite.version,
            task=task,
            scenario="normal",
            seed=seed,
            method=method,
            settings=_plain(resolved),
            method_code=code_hash(cls.__module__),
            data=self.suite.data,
            data_code=code_hash(self.dataset.code),
            stream=digest,
            model=self.model.name,
            weights=self.model.weights_hash,
            mean=self.model.mean,
            std=self.model.std,
            batch_size=self.suite.batch_size,
            limit=self.limit,
            device=self.device.type,
            amp=self.amp,
            compile=self.compile,
            harness=tta_bench.__version__,
        )


def resolve(name: str, suite: Suite, choices: Choices) -> settings.Settings:
    """A method's settings in this run: the suite's, then those of the command line; checked."""
    given = {**suite.methods.get(name, {}), **choices.overrides.get(name, {})}
    settings.check(name, registry.installed().load(name), given)
    return given


def refuse_idle(choices: Choices, methods: Sequence[str]) -> None:
    """A setting for a method that does not run is a mistake, not a wish."""
    for name in choices.overrides:
        registry.installed().entry(name)
        if name not in methods:
            raise UserError(f"--set {name}.…: method '{name}' is not in this run ({', '.join(methods)})")


def same_classes(model: SourceModel, dataset: Dataset, suite: str) -> None:
    """Logits and labels must speak of the same classes."""
    if model.num_classes != dataset.num_classes:
        raise UserError(
            f"model '{model.name}' has {model.num_classes} classes, "
            f"but suite '{suite}' has {dataset.num_classes}: choose another --model"
        )


def try_method(name: str, given: settings.Settings, model: SourceModel, batch_size: int) -> Method:
    """Build a method on a copy of the model, to see whether it can be."""
    copy = model.fresh(torch.device("cpu"))
    return registry.build_method(name, copy, num_classes=model.num_classes, batch_size=batch_size, params=given)


class Watcher:
    """Is told how a run goes on."""

    def on_start(self, work: Work) -> None:
        """A cell begins."""

    def on_batch(self, images: int, accuracy: float) -> None:
        """The cell has done so many images, with this accuracy so far."""

    def on_record(self, record: Record, is_new: bool) -> None:
        """A cell has ended, or was found in the store."""


def execute(plan: Plan, store: Store, watcher: Watcher) -> list[Record]:
    """Run every cell that the store does not have yet, and return the records of all cells of the plan."""
    records = []
    for work in plan.work():
        record = store.find(work.cell)
        is_new = record is None or record.status != "done"
        if is_new:
            watcher.on_start(work)
            record = _run_and_save(work, store, watcher.on_batch)
        assert record is not None
        watcher.on_record(record, is_new)
        records.append(record)
    return records


def _run_and_save(work: Work, store: Store, on_batch: OnBatch) -> Record:
    try:
        record, predictions = run_cell(work, on_batch)
    except Exception as error:  # a method may raise anything; the other cells go on
        told = isinstance(error, (CellFailed, UserError))
        line = " ".join(str(error).split()) or "no message"
        record = Record(
            cell=work.cell,
            status="failed",
            reason=line if told else f"{type(error).__name__}: {line}",
            traceback="" if told else traceback.format_exc(),
            environment=environment.describe(work.device),
            finished_at=now(),
        )
        store.save(record, None)
        return record
    store.save(record, predictions)
    return record


def _plain(values: settings.Settings) -> settings.Settings:
    """Settings as JSON gives them back, so that a record read from disk has the key of its cell."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def method_rows(names: Sequence[str]) -> list[dict[str, Any]]:
    """What `list methods` shows; a method that cannot be imported is a row with its error."""
    rows: list[dict[str, Any]] = []
    for name in names:
        try:
            cls = registry.installed().load(name)
        except UserError as error:
            rows.append({"name": name, "error": str(error)})
            continue
        rows.append(
            {
                "name": name,
                "paper": cls.paper,
                "adapts": cls.adapts,
                "score_point": cls.score_point,
                "passes": cls.passes,
                "needs_source": cls.needs_source,
            }
        )
    return rows
