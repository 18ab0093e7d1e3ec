"""A stream as a composition: one choice on each axis, written as `continual+recurring:20+dirichlet:0.1`.

Steps: class shares (prior) → segments (domains, order, laps) → order within each (labels) → unknown classes (open)
→ batches (cut) → running.
Each step is a pure function of sizes, labels and names. Choices that only say how a stream is run keep its order, so
`normal+reset:batch` has the order of `normal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError, third_party
from tta_bench.streams.axes import domains, running
from tta_bench.streams.axes import labels as labels_of
from tta_bench.streams.axes.base import Choice, Names, Segment
from tta_bench.streams.axes.markov import Markov
from tta_bench.streams.scenarios import Material, Plan, Running, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from tta_bench.streams.stream import Part

    Ints = NDArray[np.int64]

LONGEST = 100_000_000  # images of a stream
CLEAN = "clean"  # the name of the part with clean images


@dataclass(frozen=True)
class Composition(Scenario):
    """One choice on each axis; an axis without one has its plain choice."""

    choices: tuple[Choice, ...] = ()

    def __post_init__(self) -> None:
        kept = [self.on("domains", domains.Alone()), *(c for c in self.choices if not self._is_plain(c))]
        object.__setattr__(self, "choices", tuple(kept))
        own = {
            "name": "+".join(map(str, kept)),
            "about": "",
            "joins_tasks": self.domains.joins_tasks,
            "severities": self.domains.severities,
            "spreads_limit": self.domains.spreads_limit,
        }
        for name, value in own.items():  # what a plain scenario's class states
            object.__setattr__(self, name, value)
        self._refuse_senseless()

    def _is_plain(self, choice: Choice) -> bool:
        """Whether a choice is that of a composition without it."""
        plain = {"order:given", "recurring:1", "iid", f"reset:{'never' if self.domains.joins_tasks else 'task'}"}
        return choice.axis == "domains" or str(choice) in plain or choice == domains.TaskOrder()

    def _refuse_senseless(self) -> None:
        policy, alone = self._policy, not self.domains.joins_tasks
        if alone and policy == running.NEVER:
            raise UserError(f"reset:never requires one stream over all tasks, as continual ({self.name})")
        if alone and (word := next((str(c) for c in self.choices if c.axis in ("order", "clean", "draw")), "")):
            raise UserError(f"{word} requires one stream over all tasks, as continual ({self.name})")
        if self.on("clean") and not isinstance(self.domains, domains.OneByOne):
            raise UserError(f"{self.on('clean').word} requires continual ({self.name})")
        if self._probed and (self.on("freeze") or policy not in (running.TASK, running.NEVER)):
            raise UserError(f"remember is a probe between tasks: omit freeze and resets by batches ({self.name})")
        is_mixed = isinstance(self.domains, domains.Together)
        if is_mixed and (self.on("cut") or policy == running.TASK):
            raise UserError(f"mixed tasks have no borders at which to cut or to reset ({self.name})")
        if is_mixed and self.on("draw"):
            raise UserError(f"mixed tasks are drawn together: omit same-draw ({self.name})")
        rule = self.on("labels")
        if isinstance(rule, Markov) and rule.moves_tasks and not is_mixed:
            raise UserError(f"markov: task_stay and task_ratio need mixed tasks ({self.name})")
        if is_mixed and self.on("order") and not isinstance(rule, Markov):
            raise UserError(f"mixed tasks have no order, except with markov: omit {self.on('order')} ({self.name})")
        if self.on("open") and self.on("open").blocks and self.domains.cuts_tasks:
            raise UserError(f"open: blocks are cut by {self.domains.word}: shuffle unknown images in ({self.name})")
        if self.on("freeze") and policy not in (running.TASK, running.NEVER):
            raise UserError(f"a frozen method cannot be reset: choose freeze or reset ({self.name})")
        if self.on("freeze") and not alone and policy == running.TASK:
            raise UserError(f"freeze counts the images of a whole stream, so reset:task needs normal ({self.name})")

    def on(self, axis: str, plain: Any = None) -> Any:
        """The choice on an axis."""
        return next((choice for choice in self.choices if choice.axis == axis), plain)

    @property
    def domains(self) -> domains.Domains:
        found: domains.Domains = self.on("domains", domains.Alone())
        return found

    @property
    def _policy(self) -> str | int:
        chosen = self.on("reset")
        plain = running.NEVER if self.domains.joins_tasks else running.TASK
        found: str | int = chosen.policy if chosen else plain
        return found

    @property
    def _probed(self) -> int:
        """How many clean images are only predicted after each task."""
        found = self.on("clean")
        return found.images if isinstance(found, domains.Remember) else 0

    @property
    def is_plain(self) -> bool:
        """Whether only the domains are chosen."""
        return len(self.choices) == 1

    @property
    def settings(self) -> dict[str, Any]:
        return {}  # its name has them

    @property
    def label(self) -> str:
        return self.name

    @property
    def stream_name(self) -> str:
        return self.domains.word

    @property
    def code(self) -> tuple[str, ...]:
        of_images = _unknown().code_of(self.on("open")) if self.on("open") else ()
        return tuple(dict.fromkeys([__name__, *(type(choice).__module__ for choice in self.choices), *of_images]))

    @property
    def running(self) -> Running:
        policy, freeze = self._policy, self.on("freeze")
        every = 1 if policy == running.BATCH else policy if isinstance(policy, int) else 0
        return Running(
            cuts=self.on("cut") is not None or bool(self._probed),
            probe=CLEAN if self._probed else "",
            reset_every=every,
            resets_at_tasks=policy == running.TASK and self.joins_tasks,
            freeze_after=freeze.images if freeze else None,
        )

    def tasks_of(self, tasks: Sequence[str]) -> tuple[str, ...]:
        return tuple(task for task in tasks if not (self.on("clean") and task == CLEAN))

    def extras(self, material: Material, own: Sequence[Part]) -> list[Part]:
        from tta_bench.streams.stream import Part

        choice, unknown = self.on("open"), []
        if choice:
            unknown = _unknown().unknown_parts(choice, material, own, self.severities)
        if not self.on("clean"):
            return unknown
        images = material.dataset.originals(self.tasks_of(material.tasks)[0])
        if images is None:
            raise UserError(f"--scenario {self.name}: this kind of data has no clean originals")
        return [*unknown, Part(CLEAN, images)]

    def inspect(self, material: Material) -> str:
        found = super().inspect(material)
        self.parts(material) if self.on("open") else self.extras(material, ())
        return found

    def places(self, material: Material) -> list[Sequence[Path] | None]:
        return [*super().places(material), *([None] if self.on("open") else [])]

    def plan(self, tasks: Sequence[str], sizes: Sequence[int], labels: Ints, names: Names) -> Plan:
        import numpy as np

        from tta_bench.data.seeding import permutation

        ends = np.cumsum(sizes)
        parts = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        clean = parts.pop() if self.on("clean") else None
        own = len(parts) // 2 if self.on("open") else len(parts)
        parts, unknown = parts[:own], parts[own:]
        rule = self.on("prior")
        if rule:
            parts = [p[rule.keep(labels[p], (*names, task))] for p, task in zip(parts, tasks[:own], strict=True)]
            clean = None if clean is None else clean[rule.keep(labels[clean], (*names, CLEAN))]
        if unknown:
            parts, unknown = self.on("open").fit(parts, unknown, names)
        listed = list(dict.fromkeys(tasks[: len(parts)]))
        order = self.on("order", domains.TaskOrder()).of(listed, names)
        laps = self.on("laps", domains.Laps(1)).laps
        if (images := laps * sum(map(len, [*parts, *unknown]))) > LONGEST:
            raise UserError(f"{self.name}: a stream of {images:,} images is longer than {LONGEST:,}: use fewer laps")
        if clean is not None and self._probed:
            if self._probed > len(clean):
                raise UserError(f"remember:{self._probed} needs more clean images than the {len(clean):,} there are")
            clean = clean[permutation(len(clean), *names, "remember")[: self._probed]]
        pieces: list[Ints] = [clean] if clean is not None and self._probed else []
        starts: list[int] = []
        for lap in range(laps):
            starts.append(sum(map(len, pieces)) if lap else 0)
            with third_party(f"--scenario {self.name}"):  # a choice may be a stranger's
                pieces += self._lap(parts, unknown, clean, order, labels, (*names, "lap", lap) if lap else names)
        whole = np.concatenate(pieces).astype(np.int64)
        borders = np.cumsum([0, *map(len, pieces[:-1])])
        return Plan(whole, borders, np.array(starts))

    def _lap(
        self, parts: list[Ints], unknown: list[Ints], clean: Ints | None, order: list[int], labels: Ints, names: Names
    ) -> list[Ints]:
        segments = self.domains.segments(parts, order, names)
        if clean is not None and not self._probed:
            pairs = [(one, Segment(clean, (*names, CLEAN, i))) for i, one in enumerate(segments)]
            segments = [segment for pair in pairs for segment in pair]
        if self.on("draw"):
            segments = [segment._replace(names=(*names, "same")) for segment in segments]
        rule = self.on("labels", labels_of.Shuffled())
        arranged = [rule.arrange(segment, labels) for segment in segments]
        if unknown:
            insert, numbered = self.on("open").insert, enumerate(zip(arranged, segments, strict=True))
            arranged = [insert(one, number, parts, unknown, segment.names) for number, (one, segment) in numbered]
        ordered = self.domains.join(arranged, names)
        return self.on("clean").between(ordered, clean) if clean is not None and self._probed else ordered


def _unknown() -> Any:
    """Imported by its name: the code of other streams' keys must not depend on it."""
    return import_module("tta_bench.streams.unknown")
