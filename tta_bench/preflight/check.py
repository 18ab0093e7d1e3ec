"""Checks a run before time is spent; continues after a mistake, so that one check finds all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tta_bench import registry, settings
from tta_bench.datasets import Dataset
from tta_bench.errors import UserError
from tta_bench.isolation.adapter import Adapter
from tta_bench.measure import environment
from tta_bench.models.precision import refuse_missing_bf16
from tta_bench.models.source import SourceModel
from tta_bench.preflight import results
from tta_bench.preflight.results import CheckResult, CheckResults
from tta_bench.preflight.trial import BATCH, BATCHES, try_out
from tta_bench.records.spec import CellSpec
from tta_bench.runs.bind import Binder, refuse_many_models
from tta_bench.runs.found import model_name
from tta_bench.runs.options import RunOptions
from tta_bench.runs.site import Site, refuse_unwritable_cache
from tta_bench.runs.spec import Row, lives, refuse_unknown, refuse_unused_settings, row_of, spec_of
from tta_bench.suites.suite import Suite

MOST_NUMBERS = 30_000_000  # six methods on a ViT-B take half a minute on a CPU; a check of ImageNet-C should take 10 s
PROBE = Row("source", "source", {})  # for checking data and weights, whatever the methods are


def check(
    suite: Suite, options: RunOptions, site: Site, data: Callable[[], list[CheckResult]] | None = None
) -> list[CheckResult]:
    """Check device, methods, data and weights independently, and try every method on a few images.

    The options have the suite's scenario. `data` returns the results in the data, if another process checks it.
    """
    found, binder = CheckResults(), Binder(site)
    device = found.note("device", lambda: binder.device, lambda d: f"{d} ({environment.device_name(d)})")
    if options.amp and device is not None:
        found.note("--amp", lambda: refuse_missing_bf16(device), lambda _: "bf16 works")
    if site.cache is not None:
        refuse_unwritable_cache(site.cache)
    labels = tuple(options.methods or suite.methods)
    rows = [
        found.note(f"method {label}", lambda label=label: _checked_row(label, suite, options), _settings_line)  # type: ignore[misc]
        for label in labels
    ]
    if options.clock is not None:
        known = [row for row in rows if row is not None]
        found.note("--clock", lambda: lives(suite, options, known), lambda _: f"{options.clock} fits this run")
    found.note("--set", lambda: refuse_unused_settings(options, labels), lambda _: "every setting has its method")
    in_data = data() if data else results.in_data(suite, options, site)
    found += in_data
    if not in_data[0].ok:
        return found
    first = _note_models(found, suite, options, binder)
    if first is not None:
        _try_methods(found, [row for row in rows if row is not None], first, binder)
    return found


def _checked_row(label: str, suite: Suite, options: RunOptions) -> Row:
    refuse_unknown(label, suite, options)
    row = row_of(label, suite, options)
    settings.check(row.method, registry.installed().load(row.method), row.settings)
    return row


def _note_models(found: CheckResults, suite: Suite, options: RunOptions, binder: Binder) -> CellSpec | None:
    """Load the model of every task, once each; returns a request on the first task with a model."""
    models: dict[str, SourceModel | None] = {}
    first = None
    for task in tuple(options.tasks or suite.tasks):
        spec = spec_of(suite, options, PROBE, (task,), (options.seeds or suite.seeds)[0])
        try:
            name = model_name(spec, task, binder.dataset(spec))
        except UserError:
            name = spec.model if spec.model == "none" else f"of {task}"
        if name not in models:
            models[name] = found.note(
                f"model {name}",
                lambda spec=spec: binder.model(spec),  # type: ignore[misc]
                lambda model: f"weights {model.weights_hash}, mean {model.mean[0]:g}, std {model.std[0]:g}",
            )
            first = first or (spec if models[name] else None)
    if options.protocol.joins_tasks:
        joined = spec_of(suite, options, PROBE, tuple(options.tasks or suite.tasks), 0)
        found.note("--scenario", lambda: refuse_many_models(joined, models), lambda _: "has one model")
    return first


def _try_methods(found: CheckResults, rows: Sequence[Row], probe: CellSpec, binder: Binder) -> None:
    """Build every method and let it adapt to a few images of the task, if they can be read."""
    dataset, model = binder.sized(probe), binder.model(probe)
    known = {result.text for result in found if not result.ok}
    has_source = True
    if any(registry.installed().load(row.method).needs_source for row in rows):
        places = _places(binder.dataset(probe), probe.tasks[0])
        source = found.note(
            "source images", lambda: binder.source_images(probe), lambda s: f"{len(s.ids):,} images{places}"
        )
        has_source = source is not None
        if source is None and found[-1].text in known:
            found.pop()
    if _why_classes_unknown(dataset) in known:  # each method would report it again
        found.append(CheckResult(f"methods on {model.name}", True, "not tried, the classes are unknown"))
        return
    has_device, has_images = _succeeds(lambda: binder.device), _succeeds(lambda: binder.images(probe, probe.tasks[0]))
    numbers = sum(parameter.numel() for parameter in model.network.parameters())
    is_slow = has_device and binder.device.type == "cpu" and numbers > MOST_NUMBERS

    def attempt(row: Row) -> str:
        spec = replace(
            probe,
            label=row.label,
            method=row.method,
            settings=row.settings,
            scenario="normal",
            scenario_settings={},
            limit=BATCH * BATCHES,
            compile=False,
        )
        if not has_device:
            return "not tried, the device is not available"
        adapter = Adapter(binder.setup(spec), shares_weights=is_slow)
        adapted = f"adapts {sum(t.numel() for t in adapter.method.adapted_parameters().values()):,} numbers"
        if is_slow:
            return f"{adapted}; not tried, {numbers:,} weights are slow on a CPU"
        if not has_images or (adapter.method.needs_source and not has_source):
            return f"{adapted}; not tried, its images are missing"
        return f"{adapted}; tried on {try_out(binder.bind(spec), adapter)}"

    for row in rows:
        found.note(f"{row.label} on {model.name}", lambda row=row: attempt(row), str)  # type: ignore[misc]


def _succeeds(attempt: Callable[[], object]) -> bool:
    """Whether something works; if not, an earlier result says why."""
    try:
        attempt()
    except UserError:
        return False
    return True


def _places(dataset: Dataset, task: str) -> str:
    """The first file or folder of the source images: some data takes train images where they are, else test images."""
    try:
        places = dataset.source_places(task) or ()
    except UserError:  # which reading them says, too
        return ""
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f" of {places[0]}{more}" if places else ""


def _why_classes_unknown(dataset: Dataset) -> str | None:
    """Why the classes, which folders may name, are unknown; None if they are known."""
    try:
        _ = dataset.num_classes, dataset.class_mask()
    except UserError as error:
        return str(error)
    return None


def _settings_line(row: Row) -> str:
    return ", ".join(f"{key}={value}" for key, value in row.settings.items()) or "its own defaults"
