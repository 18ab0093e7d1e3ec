"""Checks a run without running it, and goes on after a finding, so that one look shows all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tta_bench import environment, models, plan
from tta_bench.datasets import open_dataset
from tta_bench.errors import UserError
from tta_bench.models import SourceModel
from tta_bench.plan import Choices, Contender
from tta_bench.precision import refuse_missing_bf16
from tta_bench.suite import Suite

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    told: str


def check(suite: Suite, choices: Choices) -> list[Finding]:
    """Look at device, methods, data and weights, each on its own."""
    findings: list[Finding] = []

    def look(what: str, at: Callable[[], T], tell: Callable[[T], str]) -> T | None:
        try:
            found = at()
            findings.append(Finding(what, True, tell(found)))
        except UserError as error:
            findings.append(Finding(what, False, str(error)))
            return None
        return found

    look(
        "device",
        lambda: environment.pick_device(choices.device),
        lambda d: f"{d} ({environment.device_name(d)})",
    )
    if choices.amp:
        look("--amp", lambda: refuse_missing_bf16(environment.pick_device(choices.device)), lambda _: "bf16 works")
    contenders = [
        look(f"method {label}", lambda label=label: plan.resolve(label, suite, choices), _settings_line)  # type: ignore[misc]
        for label in choices.methods or tuple(suite.methods)
    ]
    labels = list(choices.methods or suite.methods)
    look("--set", lambda: plan.refuse_idle(choices, labels), lambda _: "every setting has its method")
    dataset = look(
        "data",
        lambda: open_dataset(suite.data, suite.tasks, choices.data_root),
        lambda d: f"{d.num_classes} classes",
    )
    for task in suite.tasks if dataset else ():
        look(f"task {task}", lambda task=task: dataset.inspect(task), str)  # type: ignore[misc, union-attr]
    name = choices.model or suite.model
    model = look(f"model {name}", lambda: models.load(name), lambda m: f"weights {m.weights_hash}")
    if model and dataset:
        look(
            "classes",
            lambda: plan.same_classes(model, dataset, suite.name),
            lambda _: f"{model.num_classes}",
        )
        _build_methods(look, suite, choices, contenders, model)
    return findings


def _build_methods(
    look: Callable[..., Any],
    suite: Suite,
    choices: Choices,
    contenders: Sequence[Contender | None],
    model: SourceModel,
) -> None:
    batch_size = choices.batch_size or suite.batch_size
    for contender in contenders:
        if contender is not None:
            look(
                f"{contender.label} on {model.name}",
                lambda contender=contender: plan.try_method(contender, model, batch_size),
                lambda method: f"adapts {sum(t.numel() for t in method.adapted_parameters().values()):,} numbers",
            )


def _settings_line(contender: Contender) -> str:
    return ", ".join(f"{key}={value}" for key, value in contender.settings.items()) or "its own defaults"
