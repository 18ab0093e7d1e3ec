"""Checks a run before time is spent, and goes on after a finding, so that one look shows all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tta_bench import environment, plan, registry
from tta_bench.choices import Choices, refuse_idle
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.errors import UserError
from tta_bench.images import ImageSet
from tta_bench.models import SourceModel
from tta_bench.plan import Contender
from tta_bench.precision import refuse_missing_bf16
from tta_bench.scenarios import Part, make_stream
from tta_bench.suite import Suite
from tta_bench.trial import BATCH, BATCHES, Trial

T = TypeVar("T")
MOST_NUMBERS = 30_000_000  # six methods on a ViT-B take a CPU half a minute, and all of ImageNet-C should take 10 s
Look = Callable[..., Any]  # looks at one thing and notes a finding; returns what it saw, or None


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    told: str


def check(suite: Suite, choices: Choices) -> list[Finding]:
    """Look at device, methods, data and weights, each on its own, and try every method on a few images."""
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
    look("--set", lambda: refuse_idle(choices, labels), lambda _: "every setting has its method")
    dataset = look(
        "data",
        lambda: open_dataset(suite.data, suite.tasks, choices.data_root),
        lambda found: f"expects {found.layout}" if found.layout else "comes with tta-bench",
    )
    if dataset is None:
        return findings
    for task in suite.tasks:
        look(f"task {task}", lambda task=task: dataset.inspect(task), str)  # type: ignore[misc]
    task, model = _look_at_models(look, suite, choices, dataset)
    if model:
        _try_methods(
            look, suite, choices, contenders, model, dataset.sized(model.input_size, model.interpolation), task
        )
    return findings


def _look_at_models(look: Look, suite: Suite, choices: Choices, dataset: Dataset) -> tuple[str, SourceModel | None]:
    """Load the model of every task, each once; returns the first that is there, and its task."""
    found: dict[str, SourceModel | None] = {}
    first: tuple[str, SourceModel | None] = (suite.tasks[0], None)
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
            first = first if first[1] else (task, found[name])
    return first


def _try_methods(
    look: Look,
    suite: Suite,
    choices: Choices,
    contenders: Sequence[Contender | None],
    model: SourceModel,
    dataset: Dataset,
    task: str,
) -> None:
    """Build every method and let it adapt to a few images of the task, where they can be read."""
    there = [contender for contender in contenders if contender is not None]
    source = None
    if any(registry.installed().load(contender.method).needs_source for contender in there):
        source = look("source images", lambda: dataset.source_images(task), lambda found: f"{len(found.ids):,} images")
    trial = _trial(suite, choices, dataset, task, source)

    def attempt(contender: Contender) -> str:
        batch_size, device = (trial.batch_size, trial.device) if trial else (suite.batch_size, None)
        is_slow = trial is not None and trial.device.type == "cpu" and _numbers(model) > MOST_NUMBERS
        method = plan.try_method(contender, model, dataset, batch_size, device, to_look_at=is_slow)
        told = f"adapts {sum(t.numel() for t in method.adapted_parameters().values()):,} numbers"
        if is_slow:
            return f"{told}; not tried, {_numbers(model):,} weights are slow on a CPU"
        if trial is None or (method.needs_source and source is None):
            return f"{told}; not tried, its images are not there"
        return f"{told}; tried on {trial.run(method)} images of {task}"

    for contender in there:
        look(f"{contender.label} on {model.name}", lambda contender=contender: attempt(contender), str)


def _trial(suite: Suite, choices: Choices, dataset: Dataset, task: str, source: ImageSet | None) -> Trial | None:
    """None where the images cannot be read or the device is not there: that has been found already."""
    try:
        device = environment.pick_device(choices.device)
        images = dataset.open(task)
    except UserError:
        return None
    batch_size = 1 if choices.scenario == "single" else choices.batch_size or suite.batch_size
    stream = make_stream("normal", suite.name, suite.seeds[0], [Part(task, images)], BATCH * BATCHES)
    return Trial(stream, source, dataset.num_classes, batch_size, device, choices.amp)


def _numbers(model: SourceModel) -> int:
    return sum(parameter.numel() for parameter in model.network.parameters())


def _settings_line(contender: Contender) -> str:
    return ", ".join(f"{key}={value}" for key, value in contender.settings.items()) or "its own defaults"
