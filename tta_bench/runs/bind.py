"""Binds a request to a site: real weights, real images, and the cell that follows from them.

    work = Binder(site).bind(spec)

Models, datasets and listings are kept between the cells of one process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import cast

import torch

from tta_bench import registry, settings
from tta_bench.checked.options import part
from tta_bench.data.cache import CachedImages, FileImages
from tta_bench.data.images import ImageSet, fingerprint
from tta_bench.data.loading import in_memory
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.errors import UserError, about_row, third_party
from tta_bench.isolation.adapter import Adapter, Setup
from tta_bench.isolation.host import Work
from tta_bench.isolation.pool import Workers
from tta_bench.isolation.prepared import Prepared
from tta_bench.measure import environment
from tta_bench.measure.process import restored
from tta_bench.models import source as models
from tta_bench.models.precision import refuse_missing_bf16
from tta_bench.models.source import SourceModel
from tta_bench.records.asked import Asked
from tta_bench.records.cell import Cell
from tta_bench.records.spec import CellSpec
from tta_bench.runs.found import Bound, find, model_name
from tta_bench.runs.site import Site, refuse_unwritable_cache
from tta_bench.streams.scenarios import Material, Scenario, protocol
from tta_bench.streams.stream import Part, Stream, digest, make_stream

OnCache = Callable[[str, int, int], None]  # task, images decoded, of how many
Name = tuple[object, ...]  # of what is kept

KEPT_MODELS = 4
WORTH_A_CACHE = 4  # a stream of fewer than one in so many images builds no cache of all
KEPT_SETS = 32  # image sets whose listing is kept: all tasks of a suite, or three tasks of a gradual run


def ignore(task: str, done: int, total: int) -> None:
    """For callers that show no progress of caches."""


@lru_cache(maxsize=2)
def shared_binder(site: Site) -> Binder:
    """This process's binder for a site; files must not change while it lives."""
    return Binder(site)


class Binder:
    """Loads what specs name, once each."""

    def __init__(self, site: Site, workers: Workers | None = None) -> None:
        """A binder that gets workers lets them compute: it keeps no weights itself."""
        self.site = site
        self.workers = workers or Workers()
        self._keeps_weights = workers is None or site.in_process
        self._prepared = Prepared()
        self._models: dict[str, SourceModel] = {}
        self._datasets: dict[str, Dataset] = {}
        self._images: dict[Name, ImageSet] = {}
        self._sources: dict[Name, ImageSet] = {}
        self._last: tuple[Name, list[Part]] = ((), [])
        self._fingerprints: dict[int, tuple[ImageSet, str]] = {}

    @cached_property
    def device(self) -> torch.device:
        return environment.pick_device(self.site.device)

    def bind(self, spec: CellSpec, on_cache: OnCache = ignore) -> Work:
        """The work for a spec; UserError if weights, images or settings are missing or wrong."""
        setup, dataset, model = self.setup(spec), self.sized(spec), self.model(spec)
        self._drop_weights()
        method = registry.installed().load(spec.method)
        source = self.source_images(spec) if method.needs_source else None
        stream = self.stream(spec, on_cache)
        size = setup.batch_size
        setup = replace(setup, resets=tuple(stream.resets(size)), probes=tuple(stream.probes(size)))
        asked = replace(
            spec,
            tasks=tuple(dict.fromkeys(stream.tasks)),
            settings={k: v for k, v in setup.settings.items() if k != "seed" or "seed" in spec.settings},
            model=model.name,
            limit=spec.limit if stream.is_part else None,
        )
        bound = Bound(
            spec,
            self.site,
            needs_source=source is not None,
            setup=setup,
            model=model,
            sized=dataset,
            files=method.files(setup.settings),
            stream=stream.digest,
            images=digest([self._fingerprint(part.images) for part in self.parts(spec)]),
            source="" if source is None else digest([*source.ids, self._fingerprint(source)]),
        )
        return Work(Cell(asked, find(bound)), setup, stream, source, self.site.readers, self._prepared)

    def refuse_unfit(self, specs: Sequence[CellSpec]) -> None:
        """Refuse wrong data, weights or settings before time is spent; lists all images and opens a sample."""
        if self.site.cache is not None:
            refuse_unwritable_cache(self.site.cache)
        if any(spec.amp for spec in specs):
            refuse_missing_bf16(self.device)
        if any(spec.tf32 for spec in specs) and self.device.type != "cuda":
            raise UserError(f"--tf32 requires a GPU that CUDA can use (got {self.device})")
        streams = {(spec.tasks, spec.model, str(spec.data)): spec for spec in specs}
        for spec in streams.values():
            protocol(spec).inspect(self.material(spec))  # before weights are loaded, which may need a download
        rows = {(spec.label, spec.model): spec for spec in specs}
        for spec in rows.values():
            resolved(spec)
            registry.installed().code(spec.method)  # hashed while it is what was imported; workers compare theirs
        for spec in rows.values():
            setup = replace(self.setup(spec), device=torch.device("cpu"))
            with about_row(spec.label), restored():
                Adapter(setup, shares_weights=True)
        self._drop_weights()

    def _drop_weights(self) -> None:
        """Free the weights that were loaded so far, if workers compute: these load their own."""
        if not self._keeps_weights and not registry.installed().given:
            for model in self._models.values():
                model.network.to("meta")

    def setup(self, spec: CellSpec) -> Setup:
        """Everything needed to build a spec's method, except images."""
        values, dataset = resolved(spec), self.sized(spec)
        return Setup(
            **part(Asked, spec),
            method=spec.method,
            settings=values,
            model=self.model(spec),
            num_classes=dataset.num_classes,
            class_mask=dataset.class_mask(),
            batch_size=spec.batch_size,
            device=self.device,
            model_name=self._model_name(spec),
            live=spec.live,
            running=protocol(spec).running,
        )

    def dataset(self, spec: CellSpec) -> Dataset:
        """The dataset of a spec, before its images are sized for a model."""
        name = json.dumps(spec.data, sort_keys=True)
        if name not in self._datasets:
            tasks = protocol(spec).tasks_of(spec.tasks)
            self._datasets[name] = open_dataset(spec.data, tasks, self.site.data_root)
        return self._datasets[name]

    def sized(self, spec: CellSpec) -> Dataset:
        """The dataset of a spec, with images of its model's input size."""
        model = self.model(spec)
        return self.dataset(spec).sized(model.input_size, model.interpolation)

    def model(self, spec: CellSpec) -> SourceModel:
        """The source model of a stream; UserError if its classes are not those of the dataset."""
        name, dataset = self._model_name(spec), self.dataset(spec)
        if spec.paper:
            models.refuse_ambiguous(name)
        if name not in self._models:
            while len(self._models) >= KEPT_MODELS:
                del self._models[next(iter(self._models))]
            self._models[name] = models.load(name)
        model = self._models[name]
        if model.num_classes != dataset.model_classes:
            raise UserError(
                f"model '{model.name}' has {model.num_classes} classes, "
                f"but suite '{spec.suite}' has {dataset.model_classes}: choose another --model"
            )
        return model

    def _model_name(self, spec: CellSpec) -> str:
        dataset = self.dataset(spec)
        names = {model_name(spec, task, dataset) for task in protocol(spec).tasks_of(spec.tasks)}
        refuse_many_models(spec, names)
        return next(iter(names))

    def stream(self, spec: CellSpec, on_cache: OnCache = ignore) -> Stream:
        scenario, parts = protocol(spec), self.parts(spec, on_cache)
        with third_party(f"--scenario {spec.scenario}"):  # a choice may be a stranger's
            found = make_stream(scenario, spec.suite, spec.seed, parts, spec.limit)
        if not len(found.order):
            raise UserError(f"--scenario {spec.scenario} shows no image: choose another")
        return found

    def parts(self, spec: CellSpec, on_cache: OnCache = ignore) -> list[Part]:
        """The images of a stream, part by part."""
        scenario = protocol(spec)
        if scenario.makes_images:
            return self._made(spec, scenario, on_cache)
        levels = [(task, level) for task in scenario.tasks_of(spec.tasks) for level in scenario.severities]
        own = [Part(task, self.images(spec, task, level, on_cache)) for task, level in levels]
        return [*own, *self._extras(spec, scenario, own, on_cache)]

    def _extras(self, spec: CellSpec, scenario: Scenario, own: list[Part], on_cache: OnCache) -> list[Part]:
        """The parts that a scenario adds to the tasks, in the model's input size."""
        name = (*self._sized_name(spec), scenario.name, spec.tasks, spec.limit)
        material = self.material(spec)._replace(dataset=self.sized(spec))
        return self._last_parts(name, spec, spec.suite, lambda: scenario.extras(material, own), on_cache)

    def material(self, spec: CellSpec) -> Material:
        """What a scenario makes a stream of."""
        return Material(self.dataset(spec), spec.data, spec.suite, spec.seed, spec.tasks, self.site.data_root)

    def images(self, spec: CellSpec, task: str, severity: int | None = None, on_cache: OnCache = ignore) -> ImageSet:
        """A task's images in its model's input size, from the cache if there is one; listed once."""
        name = (*self._sized_name(spec), task, severity, spec.limit if self.site.cache else None)
        if name not in self._images:
            while len(self._images) >= KEPT_SETS:
                self._forget(self._images.pop(next(iter(self._images))))
            dataset = self.sized(spec)
            level = dataset if severity is None else dataset.at_severity(severity)
            self._images[name] = self._cached(spec, level.open(task), f"{spec.suite}-{task}", task, on_cache)
        return self._images[name]

    def _made(self, spec: CellSpec, scenario: Scenario, on_cache: OnCache) -> list[Part]:
        """The parts of a stream whose images are made for it."""
        name = (*self._sized_name(spec), spec.suite, spec.tasks, scenario, spec.seed, spec.limit)
        material, view = self.material(spec), self.sized(spec).transform
        label = f"{spec.suite}-{scenario.name}"
        return self._last_parts(name, spec, label, lambda: scenario.parts(material, view), on_cache)

    def _last_parts(
        self, name: Name, spec: CellSpec, label: str, make: Callable[[], list[Part]], on_cache: OnCache
    ) -> list[Part]:
        """The parts that `make` gives, kept until another name asks: all methods of a stream read them."""
        if self._last[0] != name:
            found = [
                (part, self._cached(spec, part.images, f"{label}-{part.task}", part.task, on_cache)) for part in make()
            ]
            for part in self._last[1]:
                self._forget(part.images)
            self._last = name, [replace(part, images=images) for part, images in found]
        return self._last[1]

    def source_images(self, spec: CellSpec) -> ImageSet:
        """Clean images that a stream's model was trained on, or similar ones; listed once."""
        dataset, task = self.sized(spec), spec.tasks[0]
        name = (*self._sized_name(spec), task if dataset.source_by_task else None)
        if name not in self._sources:
            self._sources[name] = dataset.source_images(task)
        return self._sources[name]

    def _sized_name(self, spec: CellSpec) -> Name:
        model = self.model(spec)
        return json.dumps(spec.data, sort_keys=True), model.input_size, model.interpolation

    def _cached(self, spec: CellSpec, images: ImageSet, name: str, task: str, on_cache: OnCache) -> ImageSet:
        if self.site.cache is None or in_memory(images):
            return images
        cached = CachedImages(
            cast(FileImages, images),
            self.site.cache,
            name,
            workers=self.site.readers,
            on_progress=lambda done, total: on_cache(task, done, total),
        )
        is_short = spec.limit is not None and spec.limit * WORTH_A_CACHE < len(images.ids)
        return images if is_short and not cached.path.exists() else cached

    def _fingerprint(self, images: ImageSet) -> str:
        kept = self._fingerprints.get(id(images))
        if kept is None or kept[0] is not images:
            self._fingerprints[id(images)] = kept = (images, fingerprint(images))
        return kept[1]

    def _forget(self, images: ImageSet) -> None:
        """Drop the fingerprint of a set that is no longer kept: it would keep the set alive."""
        self._fingerprints.pop(id(images), None)


def resolved(spec: CellSpec) -> settings.Settings:
    """All settings of a row with their values; UserError if one is wrong."""
    with about_row(spec.label):
        cls = registry.installed().load(spec.method)
        settings.check(spec.method, cls, spec.settings)
        return settings.resolve(cls, spec.settings, spec.seed)


def refuse_many_models(spec: CellSpec, names: Collection[str]) -> None:
    """Refuse one stream over tasks with different source models."""
    if len(names) > 1:
        raise UserError(f"--scenario {spec.scenario} is one stream, but each task has its own source model")
