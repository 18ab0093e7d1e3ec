"""Plans a run: a suite and the choices of a command line become cells, checked before any time is spent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import cast

import torch

import tta_bench
from tta_bench import registry, settings
from tta_bench.data.cache import CachedImages, FileImages
from tta_bench.data.images import ImageSet, fingerprint
from tta_bench.data.loading import in_memory
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.errors import UserError
from tta_bench.measure import environment
from tta_bench.method import Method
from tta_bench.models import source as models
from tta_bench.models.precision import refuse_missing_bf16
from tta_bench.models.source import SourceModel
from tta_bench.records.cell import Cell, code_hash, harness_hash
from tta_bench.run.choices import Choices, refuse_idle, refuse_unknown, settings_of
from tta_bench.run.runner import Work
from tta_bench.streams.scenarios import IMBALANCE, OVER_ALL_TASKS, Part, groups, levels, make_stream, spelled
from tta_bench.streams.stream import Stream, digest
from tta_bench.suites.suite import Scenario, Suite

OnCache = Callable[[str, int, int], None]  # task, images decoded, of how many


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
        self.imbalance = IMBALANCE if choices.imbalance is None else choices.imbalance
        self.suite = replace(
            suite,
            model=choices.model or suite.model,
            seeds=choices.seeds or suite.seeds,
            batch_size=1 if self.scenario == "single" else choices.batch_size or suite.batch_size,
        )
        self.asked_limit = choices.limit
        self.device = environment.pick_device(choices.device)
        self.amp, self.compile = choices.amp, choices.compile
        if self.amp:
            refuse_missing_bf16(self.device)
        self.contenders = [resolve(label, suite, choices) for label in choices.methods or tuple(suite.methods)]
        refuse_idle(choices, choices.methods or tuple(suite.methods))
        self.workers, self.cache = choices.workers, choices.cache
        self.on_cache: OnCache = lambda task, done, total: None
        dataset = open_dataset(suite.data, suite.tasks, choices.data_root)
        for _, level, task in levels(self.scenario, suite.tasks, dataset):
            level.inspect(task)  # what is wrong shows now, and before weights are asked for, which may be a download
        self.models = {task: source_model(task, dataset, suite, choices) for task in suite.tasks}
        self.model: SourceModel = self.models[suite.tasks[0]]
        refuse_many_models(self.scenario, {model.name for model in self.models.values()})
        self.sources: dict[str, ImageSet] = {}
        self._source_digests: dict[str, str] = {}
        sizes = {task: (model.input_size, model.interpolation) for task, model in self.models.items()}
        sized = {size: dataset.sized(*size) for size in set(sizes.values())}
        self.datasets: dict[str, Dataset] = {task: sized[size] for task, size in sizes.items()}
        self.dataset: Dataset = self.datasets[suite.tasks[0]]
        if any(registry.installed().load(contender.method).needs_source for contender in self.contenders):
            self.sources = {task: self.datasets[task].source_images(task) for task in suite.tasks}
        for contender in self.contenders:
            try_method(contender, self.model, self.dataset, self.suite.batch_size)

    def __len__(self) -> int:
        streams = 1 if self.scenario in OVER_ALL_TASKS else len(self.suite.tasks)
        return streams * len(self.suite.seeds) * len(self.contenders)

    def work(self) -> Iterator[Work]:
        """Every cell with what it needs; the methods follow each other on a stream, so its images are read once."""
        for parts in self._parts():
            task = parts[0].task
            images = digest([fingerprint(part.images) for part in parts])
            for seed in self.suite.seeds:
                stream = make_stream(self.scenario, self.suite.name, seed, parts, self.limit, imbalance=self.imbalance)
                for contender in self.contenders:
                    yield Work(
                        label=contender.label,
                        cell=self._cell(contender, seed, stream, images, self.models[task]),
                        stream=stream,
                        source_images=self.sources.get(task),
                        model=self.models[task],
                        num_classes=self.dataset.num_classes,
                        class_mask=self.dataset.class_mask(),
                        device=self.device,
                        workers=self.workers,
                    )

    @cached_property
    def limit(self) -> int | None:
        """The limit, if it cuts any stream short; one that changes nothing leaves a whole run, to be reported as such.

        One answer for all cells: a table has no place for whole streams beside parts.
        """
        asked = self.asked_limit
        if asked is None:
            return None
        streams = (make_stream(self.scenario, self.suite.name, 0, parts, asked) for parts in self._parts())
        return asked if any(stream.is_part for stream in streams) else None

    def _parts(self) -> Iterator[list[Part]]:
        """The images of each stream."""
        return groups(self.scenario, self.suite.tasks, self.open)

    def open(self, task: str, severity: int | None = None) -> ImageSet:
        """A task's images in the size of its model, from the cache if there is one."""
        dataset = self.datasets[task] if severity is None else self.datasets[task].at_severity(severity)
        images = dataset.open(task)
        if self.cache is None or in_memory(images):
            return images
        return CachedImages(
            cast(FileImages, images),
            self.cache,
            f"{self.suite.name}-{task}",
            workers=self.workers,
            on_progress=lambda done, total: self.on_cache(task, done, total),
        )

    def _cell(self, contender: Contender, seed: int, stream: Stream, images: str, model: SourceModel) -> Cell:
        cls = registry.installed().load(contender.method)
        transform = self.datasets[stream.tasks[0]].transform
        resolved = {**settings.defaults(cls), **contender.settings}
        if "seed" in resolved and "seed" not in contender.settings:
            resolved["seed"] = seed  # a method that draws random numbers draws them anew for each seed
        return Cell(
            suite=self.suite.name,
            suite_version=self.suite.version,
            tasks=tuple(dict.fromkeys(stream.tasks)),
            scenario=spelled(self.scenario, self.imbalance),
            seed=seed,
            method=contender.method,
            settings=_plain(resolved),
            method_code=code_hash(cls.__module__, registry.installed().packages()),
            data={
                **self.suite.data,
                **({"transform": transform.describe()} if transform else {}),
                **({"made_by": maker} if (maker := self.dataset.made_by()) else {}),
            },
            data_code=code_hash(self.dataset.code),
            stream=stream.digest,
            source=self._source_digest(stream.tasks[0]) if cls.needs_source else "",
            model=model.name,
            weights=model.weights_hash,
            mean=model.mean,
            std=model.std,
            batch_size=self.suite.batch_size,
            limit=self.limit,
            device=self.device.type,
            amp=self.amp,
            compile=self.compile,
            harness=f"{tta_bench.__version__}+{harness_hash()}",
            seed_is_set="seed" in contender.settings,
            images=images,
        )

    def _source_digest(self, task: str) -> str:
        images = self.sources[task]
        if task not in self._source_digests:
            self._source_digests[task] = digest([*images.ids, fingerprint(images)])
        return self._source_digests[task]


def resolve(label: str, suite: Suite, choices: Choices) -> Contender:
    """A row of this run: the suite's settings, then those of the command line; checked."""
    refuse_unknown(label, suite)
    asked, given = choices.overrides.get(label, {}), settings_of(label, suite, choices)
    method = given.pop("method", label)  # a suite may have several rows of one method, each under its own label
    settings.check(method, registry.installed().load(method), given)
    # A row that departs from the suite's settings says so wherever it stands.
    shown = ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in asked.items()
    )
    return Contender(f"{label} ({shown})" if shown else label, method, given)


def source_model(task: str, dataset: Dataset, suite: Suite, choices: Choices) -> SourceModel:
    """The model that a task starts from; logits and labels must speak of the same classes."""
    name = choices.model or dataset.model_for(task) or suite.model
    if name == "none":
        raise UserError(f"suite '{suite.name}' has no model of its own: give one with --model")
    if suite.paper:
        models.refuse_ambiguous(name)
    model = _load_once(name)
    if model.num_classes != dataset.model_classes:
        raise UserError(
            f"model '{model.name}' has {model.num_classes} classes, "
            f"but suite '{suite.name}' has {dataset.model_classes}: choose another --model"
        )
    return model


def refuse_many_models(scenario: Scenario, names: Collection[str]) -> None:
    """One stream over all tasks has one model."""
    if scenario in OVER_ALL_TASKS and len(names) > 1:
        raise UserError(f"--scenario {scenario} is one stream, but each task has a source model of its own")


_load_once = lru_cache(maxsize=4)(models.load)


def try_method(
    contender: Contender,
    model: SourceModel,
    dataset: Dataset,
    batch_size: int,
    device: torch.device | None = None,
    *,
    to_look_at: bool = False,
) -> Method:
    """Build a method on a copy of the model, to see whether it can be; one to look at must not adapt."""
    return registry.build_method(
        contender.method,
        model.fresh(device or torch.device("cpu"), dataset.class_mask(), to_look_at=to_look_at),
        num_classes=dataset.num_classes,
        batch_size=batch_size,
        params=contender.settings,
    )


def _plain(values: settings.Settings) -> settings.Settings:
    """Settings as JSON gives them back, so that a record read from disk has the key of its cell."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
