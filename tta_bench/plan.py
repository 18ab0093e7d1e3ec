"""Plans a run: a suite and the choices of a command line become cells, checked before any time is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

import tta_bench
from tta_bench import environment, models, registry, settings
from tta_bench.cell import Cell, code_hash
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.errors import UserError, did_you_mean
from tta_bench.method import Method
from tta_bench.models import SourceModel
from tta_bench.precision import refuse_missing_bf16
from tta_bench.runner import Work
from tta_bench.scenarios import OVER_ALL_TASKS, SEVERITIES, Part, make_stream
from tta_bench.stream import Stream
from tta_bench.suite import Scenario, Suite


@dataclass(frozen=True)
class Choices:
    """What a command line asks for beyond the suite."""

    methods: tuple[str, ...] = ()  # empty: those of the suite
    model: str | None = None
    seeds: tuple[int, ...] = ()
    scenario: Scenario = "normal"
    limit: int | None = None
    batch_size: int | None = None
    device: str = "auto"
    data_root: Path | None = None
    amp: str | None = None
    compile: bool = False
    overrides: dict[str, settings.Settings] = field(default_factory=dict)


@dataclass(frozen=True)
class Contender:
    """A row of the tables: a method with its settings, under a label."""

    label: str
    method: str
    settings: settings.Settings


class Plan:
    """A suite with all choices made and checked: what is wrong with them is known before any time is spent."""

    def __init__(self, suite: Suite, choices: Choices) -> None:
        self.scenario = choices.scenario
        if self.scenario == "single" and choices.batch_size not in (None, 1):
            raise UserError(
                f"--scenario single has batches of one image, not {choices.batch_size}: leave --batch-size out"
            )
        self.suite = replace(
            suite,
            model=choices.model or suite.model,
            seeds=choices.seeds or suite.seeds,
            batch_size=1 if self.scenario == "single" else choices.batch_size or suite.batch_size,
        )
        self.limit = choices.limit
        self.device = environment.pick_device(choices.device)
        self.amp, self.compile = choices.amp, choices.compile
        if self.amp:
            refuse_missing_bf16(self.device)
        self.contenders = [resolve(label, suite, choices) for label in choices.methods or tuple(suite.methods)]
        refuse_idle(choices, [contender.label for contender in self.contenders])
        self.dataset: Dataset = open_dataset(suite.data, suite.tasks, choices.data_root)
        self.model: SourceModel = models.load(self.suite.model)
        same_classes(self.model, self.dataset, suite.name)
        for contender in self.contenders:  # bad settings show now, not after an hour
            try_method(contender, self.model, self.suite.batch_size)

    def __len__(self) -> int:
        streams = 1 if self.scenario in OVER_ALL_TASKS else len(self.suite.tasks)
        return streams * len(self.suite.seeds) * len(self.contenders)

    def work(self) -> Iterator[Work]:
        """Every cell with what it needs; the methods follow each other on a stream, so its images are read once."""
        for parts in self._parts():
            for seed in self.suite.seeds:
                stream = make_stream(self.scenario, self.suite.name, seed, parts, self.limit)
                for contender in self.contenders:
                    cell = self._cell(contender, seed, stream)
                    source = self.dataset.source_images
                    yield Work(contender.label, cell, stream, source, self.model, self.device)

    def _parts(self) -> Iterator[list[Part]]:
        """The images of each stream."""
        if self.scenario == "gradual":
            for task in self.suite.tasks:
                yield [Part(task, self.dataset.at_severity(s).open(task)) for s in SEVERITIES]
        elif self.scenario in OVER_ALL_TASKS:
            yield [Part(task, self.dataset.open(task)) for task in self.suite.tasks]
        else:
            for task in self.suite.tasks:
                yield [Part(task, self.dataset.open(task))]

    def _cell(self, contender: Contender, seed: int, stream: Stream) -> Cell:
        cls = registry.installed().load(contender.method)
        resolved = {**settings.defaults(cls), **contender.settings}
        if "seed" in resolved and "seed" not in contender.settings:
            resolved["seed"] = seed  # a method that draws random numbers draws them anew for each seed
        return Cell(
            suite=self.suite.name,
            suite_version=self.suite.version,
            tasks=tuple(dict.fromkeys(stream.tasks)),
            scenario=self.scenario,
            seed=seed,
            method=contender.method,
            settings=_plain(resolved),
            method_code=code_hash(cls.__module__),
            data=self.suite.data,
            data_code=code_hash(self.dataset.code),
            stream=stream.digest,
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


def resolve(label: str, suite: Suite, choices: Choices) -> Contender:
    """A row of this run: the suite's settings, then those of the command line; checked."""
    given = {**suite.methods.get(label, {}), **choices.overrides.get(label, {})}
    method = given.pop("method", label)  # a suite may have several rows of one method, each under its own label
    if label not in suite.methods and label not in registry.installed().claims:
        known = {*suite.methods, *registry.installed().claims}
        raise UserError(f"unknown method '{label}'{did_you_mean(label, known)}")
    settings.check(method, registry.installed().load(method), given)
    return Contender(label, method, given)


def refuse_idle(choices: Choices, labels: Sequence[str]) -> None:
    """A setting for a method that does not run is a mistake, not a wish."""
    for name in choices.overrides:
        if name not in labels:
            raise UserError(f"--set {name}.…: method '{name}' is not in this run ({', '.join(labels)})")


def same_classes(model: SourceModel, dataset: Dataset, suite: str) -> None:
    """Logits and labels must speak of the same classes."""
    if model.num_classes != dataset.num_classes:
        raise UserError(
            f"model '{model.name}' has {model.num_classes} classes, "
            f"but suite '{suite}' has {dataset.num_classes}: choose another --model"
        )


def try_method(contender: Contender, model: SourceModel, batch_size: int) -> Method:
    """Build a method on a copy of the model, to see whether it can be."""
    return registry.build_method(
        contender.method,
        model.fresh(torch.device("cpu")),
        num_classes=model.num_classes,
        batch_size=batch_size,
        params=contender.settings,
    )


def _plain(values: settings.Settings) -> settings.Settings:
    """Settings as JSON gives them back, so that a record read from disk has the key of its cell."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
