"""Scenarios: how tasks become streams. Each is one small object: a name, its settings as data, and an order.

To add a scenario, write a class here and list it in SCENARIOS; the command line, specs and records read it from there.
numpy is imported only when an order is computed, so `--help` stays fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from tta_bench.errors import UserError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Order = NDArray[np.int64]

RISE_AND_FALL = (1, 2, 3, 4, 5, 4, 3, 2, 1)


@dataclass(frozen=True)
class Scenario:
    """How tasks become streams: a pure function of the tasks, the suite's name and the seed.

    The fields of a subclass are its settings; their metadata holds the command line's help.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    joins_tasks: ClassVar[bool] = False  # one stream over all tasks instead of one stream per task
    batch_size: ClassVar[int | None] = None  # if the scenario fixes it
    severities: ClassVar[tuple[int | None, ...]] = (None,)  # of each task's parts, in order; None: the suite's own
    spreads_limit: ClassVar[bool] = False  # whether --limit samples the whole stream instead of its beginning

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def label(self) -> str:
        """The scenario's name, with the settings that differ from their defaults."""
        changed = [f"{f.name} {getattr(self, f.name):g}" for f in fields(self) if getattr(self, f.name) != f.default]
        return ", ".join([self.name, *changed])

    @property
    def stream_name(self) -> str:
        """The name that seeds the order. Changing it changes every order drawn with it."""
        return self.name

    def groups(self, tasks: Sequence[str]) -> list[tuple[str, ...]]:
        """The tasks of each stream."""
        return [tuple(tasks)] if self.joins_tasks else [(task,) for task in tasks]

    def order(self, sizes: Sequence[int], labels: NDArray[np.int64], names: tuple[object, ...]) -> Order:
        """Positions in the joined parts, which have these sizes and labels; `names` seed every draw."""
        from tta_bench.data.seeding import permutation

        return permutation(sum(sizes), *names)


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
    imbalance: float = field(
        default=500_000.0, metadata={"help": "how many times as often as any other class the current class is drawn"}
    )

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


SCENARIOS: dict[str, type[Scenario]] = {
    scenario.name: scenario for scenario in (Normal, Single, LabelShift, Gradual, Continual, Mixed)
}


def scenario_of(name: str, settings: Mapping[str, Any] | None = None) -> Scenario:
    """The scenario with this name and these settings; unknown names and settings raise UserError."""
    if name not in SCENARIOS:
        raise UserError(f"unknown scenario '{name}'{did_you_mean(name, SCENARIOS)}")
    cls = SCENARIOS[name]
    known = {f.name for f in fields(cls)}
    for key in settings or {}:
        if key not in known:
            raise UserError(f"scenario '{name}' has no setting '{key}' (known: {', '.join(sorted(known)) or 'none'})")
    return cls(**(settings or {}))
