"""The promises of a method, each with its check."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from torch import Tensor, nn

from tta_bench import registry, settings
from tta_bench.errors import UserError, some
from tta_bench.isolation.side_effects import hooks, require_plain_values, threads
from tta_bench.measure.flops import TOLERATED, uncounted_forwards
from tta_bench.measure.process import process_state
from tta_bench.method import Kind, Method, ScorePoint
from tta_bench.testing.small import BATCH, CLASSES, stream

CPU = torch.device("cpu")


class BrokenPromise(AssertionError):
    """A method breaks a promise of `Method`; the message names the promise in one line."""


@dataclass(frozen=True)
class Subject:
    """The method under test, and what it is tested on."""

    method: str | type[Method]
    settings: dict[str, Any]
    model: Callable[[], nn.Module]
    pixels: int
    device: torch.device = CPU
    kept: dict[str, list[Tensor]] = field(default_factory=dict)

    @property
    def cls(self) -> type[Method]:
        return registry.installed().load(self.method) if isinstance(self.method, str) else self.method

    def build(self, model: nn.Module | None = None) -> Method:
        """The method as in a run: built, with its snapshot, and prepared."""
        method = self.build_unprepared(model)
        self.prepare(method)
        return method

    def build_unprepared(self, model: nn.Module | None = None) -> Method:
        model = self.model().to(self.device) if model is None else model
        return registry.build_method(self.method, model, num_classes=CLASSES, batch_size=BATCH, params=self.settings)

    def prepare(self, method: Method) -> None:
        source = [batch.to(self.device) for batch in stream(count=2, seed=7, pixels=self.pixels)]
        if method.needs_source and method.uses_labels:
            method.prepare(source, [torch.arange(len(batch), device=self.device) % CLASSES for batch in source])
        elif method.needs_source:
            method.prepare(source)

    def batches(self, count: int = 4, last: int | None = 3) -> list[Tensor]:
        return [batch.to(self.device) for batch in stream(count=count, last=last, pixels=self.pixels)]

    def first_run(self) -> list[Tensor]:
        """The logits of a fresh method on `batches()`, to compare other runs with."""
        if "logits" not in self.kept:
            method = self.build()
            self.kept["logits"] = [method.adapt(batch).clone() for batch in self.batches()]
        return self.kept["logits"]


def is_built(subject: Subject) -> None:
    subject.build()
    for name, known in (("score_point", get_args(ScorePoint)), ("kind", get_args(Kind))):
        found = getattr(subject.cls, name)
        _require(found in known, f"{name} is {found!r}, expected one of {', '.join(known)}")


def _settings_are_plain(subject: Subject) -> None:
    for name, default in settings.plain(settings.defaults(subject.cls)).items():
        try:
            same = json.loads(json.dumps(default, allow_nan=False)) == default
        except (TypeError, ValueError):
            same = False
        _require(same, f"the default of '{name}' is {default!r}, which a record cannot hold as JSON")


def _logits_are_right(subject: Subject) -> None:
    method = subject.build()
    for batch in subject.batches():
        logits: Any = method.adapt(batch)
        wanted = (len(batch), CLASSES)
        _require(isinstance(logits, Tensor), f"adapt returned {type(logits).__name__}, expected a tensor")
        _require(logits.shape == wanted, f"adapt returned the shape {tuple(logits.shape)}, expected {wanted}")
        _require(logits.is_floating_point(), f"adapt returned {logits.dtype}, expected floats")
        _require(not logits.requires_grad, "adapt returned logits that require gradients: detach() them")
        _require(bool(logits.isfinite().all()), "adapt returned NaN or infinite logits")


def _leaves_input(subject: Subject) -> None:
    method = subject.build()
    for batch in subject.batches():
        copy = batch.clone()
        method.adapt(batch)
        _require(torch.equal(batch, copy) and not batch.requires_grad, "adapt changed the images that it was given")


def _leaves_global_state(subject: Subject) -> None:
    model = subject.model()
    before = process_state()
    method = subject.build(model)
    for batch in subject.batches():
        method.adapt(batch)
    method.reset()
    for name, now in process_state().items():
        hint = ": draw from a torch.Generator of your own" if "generator" in name else ""
        _require(now == before[name], f"{name} was changed{hint}")


def _passes_are_counted(subject: Subject) -> None:
    if subject.cls.computes_besides:
        return
    model = subject.model()
    method = subject.build(model)
    forwards = uncounted_forwards(model, method.adapt, subject.batches()[0])
    _require(
        forwards <= TOLERATED,
        f"adapt computes {forwards:.1f} forwards per image that do not pass through the given model, so no table "
        "counts them: call the model, or name it in computes_besides",
    )


def _leaves_no_thread(subject: Subject) -> None:
    before = threads()
    method = subject.build()
    method.adapt(subject.batches()[0])
    left = sorted(thread.name for thread in threads() - before)
    _require(not left, f"adapt left a thread running ({', '.join(left)})")
    require_plain_values(method)


def _leaves_hooks(subject: Subject) -> None:
    model = subject.model()
    method = subject.build(model)
    before = hooks(model)
    for batch in subject.batches():
        method.adapt(batch)
    changed = [name or "the model" for name, found in hooks(model).items() if found != before.get(name)]
    _require(not changed, f"adapt changed the hooks of {some(changed)}: remove them before it returns")


def _changes_adapted_only(subject: Subject) -> None:
    model = subject.model()
    method = subject.build(model)
    adapted = method.adapted_parameters()
    before = {key: value.clone() for key, value in model.state_dict().items() if key not in adapted}
    for batch in subject.batches():
        method.adapt(batch)
    after = model.state_dict()
    for key, value in before.items():
        _require(torch.equal(after[key], value), f"'{key}' was changed, but adapted_parameters() does not have it")


def _names_are_the_models(subject: Subject) -> None:
    model = subject.model()
    own = {id(parameter): name for name, parameter in model.named_parameters()}
    for key, tensor in subject.build(model).adapted_parameters().items():
        name = own.get(id(tensor))
        _require(name in (key, None), f"the model's '{name}' is called '{key}' in adapted_parameters()")
        taken = name is None and key in own.values()
        _require(not taken, f"'{key}' in adapted_parameters() is another tensor than the model's own")


def _state_loads(subject: Subject) -> None:
    method = subject.build()
    wanted = {key: value + 1 for key, value in method.adapted_state().items()}
    method.load_adapted_state(wanted)
    for key, value in method.adapted_state().items():
        _require(torch.equal(value, wanted[key]), f"'{key}' kept its old value after load_adapted_state()")
    try:
        method.load_adapted_state({"nonsense": torch.zeros(1)})
    except UserError:
        return
    raise BrokenPromise("load_adapted_state() took a tensor 'nonsense', which the method does not have")


def _prepare_adapts_nothing_unless_declared(subject: Subject) -> None:
    """What `prepare` may change is part of the state that `reset` returns to and that other cells get."""
    method = subject.build_unprepared()
    start = method.adapted_state()
    subject.prepare(method)
    left = method.adapted_state()
    if not method.prepare_adapts:
        for key, value in left.items():
            _require(torch.equal(value, start[key]), f"prepare() changed '{key}', and prepare_adapts is not set")
        return
    _returns_to(method, left, subject, "what prepare() left")
    if state := method.prepared_state():
        other = subject.build_unprepared()
        other.load_prepared_state({name: tensor.clone() for name, tensor in state.items()})
        for key, value in other.adapted_state().items():
            _require(torch.equal(value, left[key]), f"prepared_state() does not hand over '{key}'")
        _returns_to(other, left, subject, "what load_prepared_state() left")


def _returns_to(method: Method, state: dict[str, Tensor], subject: Subject, what: str) -> None:
    method.adapt(subject.batches()[0])
    method.reset()
    for key, value in method.adapted_state().items():
        _require(torch.equal(value, state[key]), f"reset() does not return '{key}' to {what}: call remember() there")


def _prepared_state_is_all(subject: Subject) -> None:
    """A run learns from source images once, and hands over what it learned to all cells."""
    state = subject.build().prepared_state()
    method = subject.build_unprepared()
    if state:
        method.load_prepared_state({name: tensor.clone() for name, tensor in state.items()})
    else:
        subject.prepare(method)
    _replay(method, subject, "logits differ after load_prepared_state()")


def _repeats_itself(subject: Subject) -> None:
    """Even while another instance adapts to other images in between."""
    method, other = subject.build(), subject.build()
    strange = stream(seed=2, pixels=subject.pixels)
    for number, (batch, expected) in enumerate(zip(subject.batches(), subject.first_run(), strict=True), 1):
        other.adapt(strange[number - 1])
        _same(method.adapt(batch), expected, number, "a second instance, built alike, gives other logits")


def _resets(subject: Subject) -> None:
    method = subject.build()
    start = method.adapted_state()
    kept = [method.adapt(batch) for batch in subject.batches()]
    for number, (logits, expected) in enumerate(zip(kept, subject.first_run(), strict=True), 1):
        _same(logits, expected, number, "earlier logits were changed by a later adapt: return a new tensor")
    method.reset()
    _require(method.resets == 0, f"resets is {method.resets} after reset()")
    for key, value in method.adapted_state().items():
        _require(torch.equal(value, start[key]), f"'{key}' is not back at its start after reset()")
    _replay(method, subject, "a replay after reset() differs: forget() must drop what was learned")


def _works_without_gradients(subject: Subject) -> None:
    method = subject.build()
    subject.first_run()  # with gradients, for comparison
    with torch.no_grad():
        _replay(method, subject, "logits differ where the caller has switched gradients off")


def _features_change_nothing(subject: Subject) -> None:
    method = subject.build()
    for number, (batch, expected) in enumerate(zip(subject.batches(), subject.first_run(), strict=True), 1):
        _same(method.adapt(batch), expected, number, "features() or predict() changes what a later adapt does")
        with torch.no_grad():
            outputs: list[tuple[str, Any]] = [("features()['logits']", method.features(batch).get("logits"))]
        outputs.append(("predict()", method.predict(batch)))
        for what, logits in outputs:
            right = isinstance(logits, Tensor) and logits.shape == expected.shape
            _require(right, f"{what} is not a tensor of shape {tuple(expected.shape)}")


def _stays_finite(subject: Subject) -> None:
    for value in (0.0, 0.5, 1.0):
        method = subject.build()
        for size in (BATCH, BATCH, 1):
            logits = method.adapt(torch.full((size, 3, subject.pixels, subject.pixels), value))
            _require(bool(logits.isfinite().all()), f"NaN or infinite logits for {size} equal images of value {value}")
        for key, tensor in method.adapted_parameters().items():
            _require(bool(tensor.isfinite().all()), f"'{key}' is NaN or infinite after equal images of value {value}")


def start_of(subject: Subject) -> list[str]:
    """A remark where a method that answers before its first update does not answer as the source model."""
    method, batch = subject.build(), subject.batches()[0]
    answered = method.adapt(batch).argmax(1)
    with torch.no_grad():
        changed = int((answered != subject.model().eval()(batch).argmax(1)).sum())
    if method.score_point != "pre-update" or not changed:
        return []
    return [f"before its first update, {changed} of {len(batch)} answers differ from Source's"]


PROMISES: dict[str, Callable[[Subject], None]] = {
    "it can be built": is_built,
    "settings are plain data": _settings_are_plain,
    "logits are finite, detached and [B, classes]": _logits_are_right,
    "images are left alone": _leaves_input,
    "global state is left alone": _leaves_global_state,
    "every pass goes through the given model": _passes_are_counted,
    "nothing runs outside adapt": _leaves_no_thread,
    "the model's hooks are left alone": _leaves_hooks,
    "adapted tensors have the model's names": _names_are_the_models,
    "only adapted tensors change": _changes_adapted_only,
    "adapted state can be loaded": _state_loads,
    "prepare adapts nothing, unless declared": _prepare_adapts_nothing_unless_declared,
    "equal instances give equal logits": _repeats_itself,
    "prepared state can be handed over": _prepared_state_is_all,
    "reset replays a stream bit for bit": _resets,
    "adapt switches gradients on itself": _works_without_gradients,
    "features and predict change nothing": _features_change_nothing,
    "equal images keep everything finite": _stays_finite,
}
"""All checks in order, by the name that reports list."""


def _replay(method: Method, subject: Subject, complaint: str) -> None:
    """Adapt to the batches of the first run; logits must be the same."""
    for number, (batch, expected) in enumerate(zip(subject.batches(), subject.first_run(), strict=True), 1):
        _same(method.adapt(batch), expected, number, complaint)


def _same(found: Tensor, expected: Tensor, number: int, complaint: str) -> None:
    if not torch.equal(found, expected):
        by = f" by up to {(found - expected).abs().max():.3g}" if found.shape == expected.shape else ""
        raise BrokenPromise(f"{complaint} (batch {number} differs{by})")


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise BrokenPromise(complaint)
