"""How tasks follow each other: which images are put in order together, and how the ordered tasks are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tta_bench.checked.options import option
from tta_bench.checked.readers import BadValue, positive, whole
from tta_bench.data.families import CORRUPTIONS
from tta_bench.errors import UserError, some
from tta_bench.streams.axes.base import Choice, Names, Segment
from tta_bench.streams.axes.labels import concentration
from tta_bench.streams.presets import orders

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

FALL = (5, 4, 3, 2, 1)
RISE_AND_FALL = (1, 2, 3, 4, *FALL)


@dataclass(frozen=True)
class Domains(Choice):
    """Tasks as streams. `parts` are the images of each task at each severity, as positions in the joined parts."""

    axis = "domains"
    joins_tasks: ClassVar[bool] = True
    severities: ClassVar[tuple[int | None, ...]] = (None,)
    spreads_limit: ClassVar[bool] = False
    cuts_tasks: ClassVar[bool] = False  # whether `join` cuts what was put in order

    def segments(self, parts: Sequence[Ints], tasks: Sequence[int], names: Names) -> list[Segment]:
        """One visit of all tasks, in the order `tasks`."""
        return [Segment(parts[task], (*names, task)) for task in tasks]

    def join(self, ordered: Sequence[Ints], names: Names) -> list[Ints]:
        """The pieces of the stream that these ordered segments become."""
        return list(ordered)


@dataclass(frozen=True)
class Alone(Domains):
    word = "normal"
    about = "each task is a stream of its own"
    joins_tasks = False

    def segments(self, parts: Sequence[Ints], tasks: Sequence[int], names: Names) -> list[Segment]:
        return [Segment(parts[0], names)]


@dataclass(frozen=True)
class OneByOne(Domains):
    word = "continual"
    about = "all tasks one after the other"


@dataclass(frozen=True)
class Together(Domains):
    word = "mixed"
    about = "all tasks shuffled together; labels are then ordered over all of them"

    def segments(self, parts: Sequence[Ints], tasks: Sequence[int], names: Names) -> list[Segment]:
        import numpy as np

        place = np.argsort(tasks)
        return [Segment(np.concatenate(parts), names, tasks=np.repeat(place, [len(part) for part in parts]))]


@dataclass(frozen=True)
class RisingAlone(Domains):
    word = "gradual"
    about = "each task alone, its severity rising from 1 to 5 and falling again, each image once"
    joins_tasks = False
    severities = RISE_AND_FALL
    spreads_limit = True

    def segments(self, parts: Sequence[Ints], tasks: Sequence[int], names: Names) -> list[Segment]:
        from tta_bench.data.seeding import permutation

        sizes = [len(part) for part in parts]
        if len(set(sizes)) > 1:
            listed = some([f"{size:,}" for size in sizes])
            raise UserError(f"gradual severities require the same images at each, and there are {listed}")
        common, steps = permutation(sizes[0], *names), len(parts)
        return [Segment(part[common[i::steps]], (*names, i), True) for i, part in enumerate(parts)]


@dataclass(frozen=True)
class RisingOneByOne(Domains):
    word = "continual-gradual"
    about = "all tasks one after the other, each rising from 1 to 5 and falling, with all images at each severity"
    severities = tuple(sorted(FALL))

    start: int = option(1, "the first severity: 5 lets the first task only fall", positive)

    def __post_init__(self) -> None:
        if self.start not in (1, 5):
            raise UserError(f"{self.word}: start: expected 1 or 5, got {self.start}")

    def segments(self, parts: Sequence[Ints], tasks: Sequence[int], names: Names) -> list[Segment]:
        found = []
        for number, task in enumerate(tasks):
            for step, severity in enumerate(FALL if number == 0 and self.start == 5 else RISE_AND_FALL):
                place = len(self.severities) * task + severity - 1
                found.append(Segment(parts[place], (*names, task, step)))
        return found


@dataclass(frozen=True)
class Dynamic(Domains):
    word = "dynamic"
    about = "each task cut into a few pieces of random length that alternate"
    cuts_tasks = True

    delta: float = option(1.0, "of the Dirichlet distribution of lengths; small: uneven", concentration)
    pieces: int = option(3, "slots that each task is spread over", positive)
    unit: int = option(64, "images in the unit of length: use the batch size", positive)

    def join(self, ordered: Sequence[Ints], names: Names) -> list[Ints]:
        import numpy as np

        from tta_bench.streams.draws import Draws, shares

        draws = Draws(*names, self.word)
        slots: list[list[Ints]] = [[] for _ in range(self.pieces)]
        for part in ordered:
            units = -(-len(part) // self.unit)
            ends = np.floor(np.cumsum(shares(draws.dirichlet_logs(self.delta, 1, self.pieces)[0])) * units)
            cuts = self.unit * ends[:-1].astype(np.int64)
            for slot, piece in zip(slots, np.split(part, cuts), strict=True):
                slot.append(piece)
        found = [slot[i] for slot in slots for i in draws.order(len(slot))]
        return [piece for piece in found if len(piece)]


@dataclass(frozen=True)
class DynamicUniform(Domains):
    word = "dynamic-uniform"
    about = "a random task shows a random part of what it has left, until nothing is left"
    cuts_tasks = True

    unit: int = option(64, "images in the unit of length: use the batch size", positive)

    def join(self, ordered: Sequence[Ints], names: Names) -> list[Ints]:
        from tta_bench.streams.draws import Draws

        draws, left, found = Draws(*names, self.word), list(ordered), []
        while left := [part for part in left if len(part)]:
            chosen = draws.below(len(left))
            taken = self.unit * (1 + draws.below(-(-len(left[chosen]) // self.unit)))
            found.append(left[chosen][:taken])
            left[chosen] = left[chosen][taken:]
        return found


def _task_order(given: Any) -> str:
    if given in ("given", "random") or _published(str(given)):
        return str(given)
    raise BadValue(f"expected given, random or a published one ({', '.join(orders())}), got {given!r}")


def _published(name: str) -> list[list[int]]:
    """The published orders with this name, or with this name and a number."""
    return [order for key, order in orders().items() if name in (key, key.rpartition("-")[0])]


@dataclass(frozen=True)
class TaskOrder(Choice):
    word = "order"
    axis = "order"
    about = "given, random (by the seed), or published; of several with one name, the seed chooses"

    tasks: str = option("given", "the order", _task_order)

    def of(self, names: Sequence[str], seeds: Names) -> list[int]:
        """The numbers of tasks with these names, in this order."""
        from tta_bench.data.seeding import permutation

        if self.tasks == "random":
            return [int(i) for i in permutation(len(names), *seeds, "tasks")]
        if self.tasks == "given":
            return list(range(len(names)))
        if strange := [name for name in names if name not in CORRUPTIONS]:
            raise UserError(
                f"order:{self.tasks} is an order of the standard corruptions, and '{strange[0]}' is none of them: "
                f"use order:random or order:given"
            )
        found = _published(self.tasks)
        order = found[int(str(seeds[-1])) % len(found)]
        rank = {CORRUPTIONS[task]: i for i, task in enumerate(order)}
        return sorted(range(len(names)), key=lambda i: rank[names[i]])


@dataclass(frozen=True)
class Laps(Choice):
    word = "recurring"
    axis = "laps"
    about = "all tasks come again, with the same images in another order"

    laps: int = option(None, "how often they come in all", positive, metavar="20")


@dataclass(frozen=True)
class Remember(Choice):
    word = "remember"
    axis = "clean"
    about = "before the first task and after each, the method predicts N clean images without adapting (a probe)"

    images: int = option(None, "N", positive, metavar="256")
    every: int = option(0, "also after so many images of a task, a multiple of the batch size; 0: not within", whole)

    def between(self, pieces: Sequence[Ints], clean: Ints) -> list[Ints]:
        """The pieces of a lap with the probe after each, or after each `every` images."""
        import numpy as np

        found: list[Ints] = []
        for one in pieces:
            step = self.every or len(one) + 1
            found += [part for own in np.split(one, range(step, len(one), step)) for part in (own, clean)]
        return found


@dataclass(frozen=True)
class Clean(Choice):
    word = "clean"
    axis = "clean"
    about = "after each task its clean originals, as a part of the stream named clean"
