"""Checks a run before time is spent, and goes on after a finding, so that one look shows all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tta_bench import registry
from tta_bench.data.images import ImageSet
from tta_bench.datasets import Dataset, open_dataset
from tta_bench.errors import UserError
from tta_bench.measure import environment
from tta_bench.models.precision import refuse_missing_bf16
from tta_bench.models.source import SourceModel
from tta_bench.preflight import findings
from tta_bench.preflight.findings import Finding, Findings
from tta_bench.preflight.trial import BATCH, BATCHES, Trial
from tta_bench.run import plan
from tta_bench.run.choices import Choices, refuse_idle
from tta_bench.run.plan import Contender
from tta_bench.streams.scenarios import OVER_ALL_TASKS, Part, make_stream
from tta_bench.suites.suite import Suite

MOST_NUMBERS = 30_000_000  # six methods on a ViT-B take a CPU half a minute, and all of ImageNet-C should take 10 s


def check(suite: Suite, choices: Choices, data: Callable[[], list[Finding]] | None = None) -> list[Finding]:
    """Look at device, methods, data and weights, each on its own, and try every method on a few images.

    `data` gives the findings in the data, if they were begun elsewhere.
    """
    found = Findings()
    look = found.look
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
    in_data = data() if data else findings.in_data(suite, choices)
    found += in_data
    if not in_data[0].ok:
        return found
    dataset = open_dataset(suite.data, suite.tasks, choices.data_root)
    task, model = _look_at_models(found, suite, choices, dataset)
    if model:
        dataset = dataset.sized(model.input_size, model.interpolation)
        _try_methods(found, suite, choices, contenders, model, dataset, task)
    return found


def _look_at_models(
    found: Findings, suite: Suite, choices: Choices, dataset: Dataset
) -> tuple[str, SourceModel | None]:
    """Load the model of every task, each once; returns the first that is there, and its task."""
    models: dict[str, SourceModel | None] = {}
    first: tuple[str, SourceModel | None] = (suite.tasks[0], None)
    for task in suite.tasks:
        try:
            name = choices.model or dataset.model_for(task) or suite.model
        except UserError:
            name = f"of {task}"
        if name not in models:
            models[name] = found.look(
                f"model {name}",
                lambda task=task: plan.source_model(task, dataset, suite, choices),  # type: ignore[misc]
                lambda model: f"weights {model.weights_hash}, mean {model.mean[0]:g}, std {model.std[0]:g}",
            )
            first = first if first[1] else (task, models[name])
    if choices.scenario in OVER_ALL_TASKS:
        found.look("--scenario", lambda: plan.refuse_many_models(choices.scenario, models), lambda _: "has one model")
    return first


def _try_methods(
    found: Findings,
    suite: Suite,
    choices: Choices,
    contenders: Sequence[Contender | None],
    model: SourceModel,
    dataset: Dataset,
    task: str,
) -> None:
    """Build every method and let it adapt to a few images of the task, where they can be read."""
    there = [contender for contender in contenders if contender is not None]
    told = {finding.told for finding in found if not finding.ok}
    source = None
    if any(registry.installed().load(contender.method).needs_source for contender in there):
        source = found.look("source images", lambda: dataset.source_images(task), lambda s: f"{len(s.ids):,} images")
        if source is None and found[-1].told in told:
            found.pop()
    if _why_without_classes(dataset) in told:  # each method would say it again
        found.append(Finding(f"methods on {model.name}", True, "not tried, the classes of their images are not known"))
        return
    device = _device(choices)
    batch_size = 1 if choices.scenario == "single" else choices.batch_size or suite.batch_size
    numbers = sum(parameter.numel() for parameter in model.network.parameters())
    is_slow = device is not None and device.type == "cpu" and numbers > MOST_NUMBERS
    images = None if is_slow else _images(dataset, task)

    def attempt(contender: Contender) -> str:
        method = plan.try_method(contender, model, dataset, batch_size, device, to_look_at=is_slow)
        told = f"adapts {sum(t.numel() for t in method.adapted_parameters().values()):,} numbers"
        if is_slow:
            return f"{told}; not tried, {numbers:,} weights are slow on a CPU"
        if device is None or images is None or (method.needs_source and source is None):
            return f"{told}; not tried, its images are not there"
        stream = make_stream("normal", suite.name, suite.seeds[0], [Part(task, images)], BATCH * BATCHES)
        trial = Trial(stream, source, dataset.num_classes, batch_size, device, choices.amp)
        return f"{told}; tried on {trial.run(method)} images of {task}"

    for contender in there:
        found.look(f"{contender.label} on {model.name}", lambda contender=contender: attempt(contender), str)  # type: ignore[misc]


def _device(choices: Choices) -> torch.device | None:
    """None where it is not there: that has been found already."""
    try:
        return environment.pick_device(choices.device)
    except UserError:
        return None


def _images(dataset: Dataset, task: str) -> ImageSet | None:
    """None where they cannot be read: that has been found already."""
    try:
        return dataset.open(task)
    except UserError:
        return None


def _why_without_classes(dataset: Dataset) -> str | None:
    """Why the classes cannot be known, where folders name them; None if they can."""
    try:
        _ = dataset.num_classes, dataset.class_mask()
    except UserError as error:
        return str(error)
    return None


def _settings_line(contender: Contender) -> str:
    return ", ".join(f"{key}={value}" for key, value in contender.settings.items()) or "its own defaults"
