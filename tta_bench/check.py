"""Checks a run without running it, and goes on after a finding, so that one look shows all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tta_bench import environment, plan, registry
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.errors import UserError
from tta_bench.models import SourceModel
from tta_bench.plan import Choices, Contender
from tta_bench.precision import refuse_missing_bf16
from tta_bench.suite import Suite

T = TypeVar("T")
Look = Callable[..., Any]  # looks at one thing and notes a finding; returns what it saw, or None


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
        lambda found: f"expects {found.layout}" if found.layout else "comes with tta-bench",
    )
    if dataset is None:
        return findings
    for task in suite.tasks:
        look(f"task {task}", lambda task=task: dataset.inspect(task), str)  # type: ignore[misc]
    model = _look_at_models(look, suite, choices, dataset)
    if model:
        _build_methods(look, suite, choices, contenders, model, dataset)
    return findings


def _look_at_models(look: Look, suite: Suite, choices: Choices, dataset: Dataset) -> SourceModel | None:
    """Load the model of every task, each once; returns the first that is there."""
    found: dict[str, SourceModel | None] = {}
    for task in suite.tasks:
        try:
            name = choices.model or dataset.model_for(task) or suite.model
        except UserError:
            name = f"of {task}"
        if name not in found:
            found[name] = look(
                f"model {name}",
                lambda task=task: plan.source_model(task, dataset, suite, choices),
                lambda model: f"weights {model.weights_hash}, mean {model.mean[0]:g}, std {model.std[0]:g}",
            )
    return next((model for model in found.values() if model), None)


def _build_methods(
    look: Look,
    suite: Suite,
    choices: Choices,
    contenders: Sequence[Contender | None],
    model: SourceModel,
    dataset: Dataset,
) -> None:
    batch_size = choices.batch_size or suite.batch_size
    for contender in contenders:
        if contender is not None:
            look(
                f"{contender.label} on {model.name}",
                lambda contender=contender: plan.try_method(contender, model, dataset, batch_size),
                lambda method: f"adapts {sum(t.numel() for t in method.adapted_parameters().values()):,} numbers",
            )
    if any(contender and registry.installed().load(contender.method).needs_source for contender in contenders):
        look(
            "source images",
            lambda: dataset.source_images(suite.tasks[0]),
            lambda images: f"{len(images.ids):,} images",
        )


def _settings_line(contender: Contender) -> str:
    return ", ".join(f"{key}={value}" for key, value in contender.settings.items()) or "its own defaults"
