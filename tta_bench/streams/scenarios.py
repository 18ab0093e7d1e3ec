"""Scenarios: how tasks become streams. Each is one small object: a name, its settings as data, and an order.

The seven here came first and keep their names, keys and orders. All others are compositions of choices on axes
(composition.py). numpy is imported only when an order is computed, so `--help` stays fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from tta_bench.checked.options import option
from tta_bench.checked.readers import positive, ratio
from tta_bench.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from tta_bench.datasets import Dataset
    from tta_bench.datasets.transform import Transform
    from tta_bench.records.spec import CellSpec
    from tta_bench.streams.stream import Part

    Order = NDArray[np.int64]

RISE_AND_FALL = (1, 2, 3, 4, 5, 4, 3, 2, 1)
DIFFICULTIES = {"easy": 0.6, "medium": 0.4, "hard": 0.2}  # Source's accuracy in `ccc`


class Material(NamedTuple):
    """What a stream is made of."""

    dataset: Dataset  # before its images are sized for a model
    data: Mapping[str, Any]  # the suite's data block
    suite: str
    seed: int
    tasks: Sequence[str]
    root: Path | None


@dataclass(frozen=True)
class Plan:
    """The images of a stream in order."""

    order: Order  # positions in the joined parts
    borders: Order | None = None  # places in `order` where a task or a piece of one starts; None: only at 0
    laps: Order | None = None  # places where all tasks come again


@dataclass(frozen=True)
class Running:
    """How a stream is run; affects no order."""

    cuts: bool = False  # whether batches end at borders
    reset_every: int = 0  # batches after which a method is reset; 0: never
    resets_at_tasks: bool = False
    freeze_after: int | None = None  # images to adapt to; None: all
    probe: str = ""  # a part of the stream that is only predicted

    @property
    def skips(self) -> bool:
        """Whether the method only predicts some batches."""
        return self.freeze_after is not None or bool(self.probe)


PLAIN = Running()


@dataclass(frozen=True)
class Scenario:
    """How tasks become streams: a pure function of the tasks, the suite's name and the seed.

    The fields of a subclass are its settings, each an option of `run`.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    joins_tasks: ClassVar[bool] = False  # one stream over all tasks instead of one stream per task
    batch_size: ClassVar[int | None] = None  # if the scenario fixes it
    severities: ClassVar[tuple[int | None, ...]] = (None,)  # of each task's parts, in order; None: the suite's own
    spreads_limit: ClassVar[bool] = False  # whether --limit samples the whole stream instead of its beginning
    image_code: ClassVar[str] = ""  # the module that makes its images, for a scenario that does not read them

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def label(self) -> str:
        """The scenario's name, with the settings that differ from their defaults."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        changed = [
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in found.items()
        ]
        return ", ".join([self.name, *changed])

    @property
    def stream_name(self) -> str:
        """The name that seeds the order. Changing it changes every order drawn with it."""
        return self.name

    @property
    def code(self) -> tuple[str, ...]:
        """Modules that make its streams and no other scenario's: they are part of its results' identity."""
        return (self.image_code,) if self.image_code else ()

    @property
    def running(self) -> Running:
        return PLAIN

    @property
    def makes_images(self) -> bool:
        """Whether images are made for each stream, instead of read from the dataset."""
        return bool(self.image_code)

    def groups(self, tasks: Sequence[str]) -> list[tuple[str, ...]]:
        """The tasks of each stream."""
        return [tuple(tasks)] if self.joins_tasks else [(task,) for task in tasks]

    def order(self, sizes: Sequence[int], labels: NDArray[np.int64], names: tuple[object, ...]) -> Order:
        """Positions in the joined parts, which have these sizes and labels; `names` seed every draw."""
        from tta_bench.data.seeding import permutation

        return permutation(sum(sizes), *names)

    def plan(self, tasks: Sequence[str], sizes: Sequence[int], labels: Order, names: tuple[object, ...]) -> Plan:
        """The order of the joined parts, which have these tasks, sizes and labels; `names` seed every draw."""
        return Plan(self.order(sizes, labels, names))

    def tasks_of(self, tasks: Sequence[str]) -> tuple[str, ...]:
        """The tasks of a stream that the dataset opens; the others are extras."""
        return tuple(tasks)

    def extras(self, material: Material, own: Sequence[Part]) -> list[Part]:
        """Parts of a stream beside those of its suite's tasks, which are `own`."""
        return []

    def parts(self, material: Material, view: Transform | None = None) -> list[Part]:
        """The images of a stream, part by part; `view` sizes images that the scenario makes for a model."""
        from tta_bench.streams.stream import Part

        levels, tasks = self._levels(material.dataset), self.tasks_of(material.tasks)
        opened = [Part(task, levels[severity].open(task)) for task in tasks for severity in self.severities]
        return [*opened, *self.extras(material, opened)]

    def inspect(self, material: Material) -> str:
        """Open a sample of the images; returns a summary, or raises UserError."""
        levels = self._levels(material.dataset).values()
        return "; ".join(level.inspect(task) for task in self.tasks_of(material.tasks) for level in levels)

    def places(self, material: Material) -> list[Sequence[Path] | None]:
        """The files and folders that the images come from; None for what cannot be checked cheaply."""
        levels, tasks = self._levels(material.dataset).values(), self.tasks_of(material.tasks)
        extras: list[Sequence[Path] | None] = [] if tasks == tuple(material.tasks) else [None]
        return [*(level.places(task) for level in levels for task in tasks), *extras]

    def _levels(self, dataset: Dataset) -> dict[int | None, Dataset]:
        """The dataset at each severity."""
        return {level: dataset if level is None else dataset.at_severity(level) for level in self.severities}


@dataclass(frozen=True)
class Normal(Scenario):
    name = "normal"
    about = "each task shuffled, from the source weights (the usual protocol)"


@dataclass(frozen=True)
class Single(Scenario):
    name = "single"
    about = "as normal, one image at a time"
    batch_size = 1


@dataclass(frozen=True)
class LabelShift(Scenario):
    name = "label-shift"
    about = "each task class after class: online imbalanced labels"

    # The SAR authors' default: practically one class at a time.
    imbalance: float = option(500_000.0, "how many times as often as any other class the current class is drawn", ratio)

    def __post_init__(self) -> None:
        if not 0 < self.imbalance < float("inf"):
            raise UserError(f"imbalance: expected a number above 0, got {self.imbalance!r}")
        object.__setattr__(self, "imbalance", float(self.imbalance))

    @property
    def stream_name(self) -> str:
        if self == LabelShift():
            return self.name
        ratio = int(self.imbalance) if self.imbalance.is_integer() else self.imbalance
        return f"{self.name} --imbalance {ratio}"

    def order(self, sizes: Sequence[int], labels: NDArray[np.int64], names: tuple[object, ...]) -> Order:
        from tta_bench.streams.orders import class_after_class

        return class_after_class(labels, self.imbalance, names)


@dataclass(frozen=True)
class Gradual(Scenario):
    name = "gradual"
    about = "each task with its severity rising from 1 to 5 and falling again"
    severities = RISE_AND_FALL
    spreads_limit = True  # the beginning alone has only low severities

    def order(self, sizes: Sequence[int], labels: NDArray[np.int64], names: tuple[object, ...]) -> Order:
        from tta_bench.streams.orders import one_after_the_other

        return one_after_the_other(sizes, names, share=True)


@dataclass(frozen=True)
class Continual(Scenario):
    name = "continual"
    about = "all tasks one after the other, never reset"
    joins_tasks = True

    def order(self, sizes: Sequence[int], labels: NDArray[np.int64], names: tuple[object, ...]) -> Order:
        from tta_bench.streams.orders import one_after_the_other

        return one_after_the_other(sizes, names)


@dataclass(frozen=True)
class Mixed(Scenario):
    name = "mixed"
    about = "all tasks shuffled together"
    joins_tasks = True


@dataclass(frozen=True)
class Ccc(Scenario):
    name = "ccc"
    about = "one long stream of clean images under pairs of corruptions that change smoothly, never reset"
    joins_tasks = True
    spreads_limit = True  # the beginning alone has few of the corruptions
    image_code = "tta_bench.streams.ccc.images"

    difficulty: str = option(
        "medium", "Source's accuracy: 60 % (easy), 40 % (medium) or 20 % (hard)", choices=tuple(DIFFICULTIES)
    )
    length: int = option(50_000, "images in the stream", positive)
    laps: int = option(1, "how many times the stream passes through all corruptions", positive)

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise UserError(f"difficulty: expected {', '.join(DIFFICULTIES)}, got {self.difficulty!r}")
        for name, most in (("length", 100_000_000), ("laps", 10_000)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise UserError(f"{name}: expected a whole number from 1 to {most:,}, got {value!r}")

    @property
    def target(self) -> float:
        """Source's accuracy, from 0 to 1."""
        return DIFFICULTIES[self.difficulty]

    @property
    def stream_name(self) -> str:
        return f"{self.name} --difficulty {self.difficulty} --length {self.length} --laps {self.laps}"

    @property
    def _images(self) -> ModuleType:
        """Imported by its name: the code of other streams' keys must not depend on it."""
        return import_module(self.image_code)

    def parts(self, material: Material, view: Transform | None = None) -> list[Part]:
        found: list[Part] = self._images.changing_parts(self, *material, view)
        return found

    def inspect(self, material: Material) -> str:
        return str(self._images.inspect(self, *material))

    def places(self, material: Material) -> list[Sequence[Path] | None]:
        dataset, data, _, _, tasks, root = material
        table = self._images.calibration_file(data, dataset, root)
        return [dataset.source_places(tasks[0]), [table] if table else []]


SCENARIOS: dict[str, type[Scenario]] = {
    scenario.name: scenario for scenario in (Normal, Single, LabelShift, Gradual, Continual, Mixed, Ccc)
}


def scenario_of(name: str, settings: Mapping[str, Any] | None = None, *, replaced: str = "") -> Scenario:
    """The scenario with this name and these settings; unknown names and settings raise UserError.

    `replaced` is a choice that takes the place of the composition's choice on its axis.
    """
    if replaced:
        return _composed(name, replaced)
    cls = SCENARIOS.get(name)
    known = {f.name for f in fields(cls)} if cls else set()
    found = cls() if cls else _composed(name)
    for key in settings or {}:
        if key not in known:
            raise UserError(f"scenario '{name}' has no setting '{key}' (known: {', '.join(sorted(known)) or 'none'})")
    return cls(**(settings or {})) if cls else found


def _composed(text: str, replaced: str = "") -> Scenario:
    # Imported by its name: the code of the seven scenarios' keys must not depend on it.
    found = import_module("tta_bench.streams.composition").compose(text, replaced)
    return SCENARIOS[found.name]() if found.name in SCENARIOS else cast(Scenario, found)


def protocol(spec: CellSpec) -> Scenario:
    """The scenario that a request names."""
    return scenario_of(spec.scenario, spec.scenario_settings)
