"""check_method finds each broken promise and names it; a method that keeps them all passes."""

from __future__ import annotations

import copy
import random
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.support.cli import Cli
from tta_bench import Method
from tta_bench.measure.process import process_state
from tta_bench.registry import Registry
from tta_bench.testing import PROMISES, BrokenPromise, check_method, check_promises, tiny_vit

RELU = nn.ReLU()
UNDECLARED = "prepare adapts nothing, unless declared"
shallow = partial(tiny_vit, depth=2)


class Good(Method):
    """Entropy descent on the final norm, with momentum: small, but with state to reset."""

    needs_source = True

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64, lr: float = 0.1) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.lr = lr
        self.offset = torch.zeros(num_classes)
        self.forget()

    def prepare(self, source_batches: Any, labels: Any = None) -> None:
        with torch.no_grad():
            self.offset = torch.cat([self.model(batch) for batch in source_batches]).mean(0)

    def adapted_parameters(self) -> dict[str, Tensor]:
        return {"norm.weight": self.model.norm.weight}  # type: ignore[union-attr,dict-item]

    def forget(self) -> None:
        self.momentum: Any = 0.0

    def adapt(self, batch: Tensor) -> Tensor:
        (weight,) = self.adapted_parameters().values()
        with torch.enable_grad():
            logits = self.model(batch) - self.offset
            log_p = logits.log_softmax(1)
            (gradient,) = torch.autograd.grad(-(log_p.exp() * log_p).sum(1).mean(), weight)
        self.momentum = 0.9 * self.momentum + gradient
        with torch.no_grad():
            weight -= self.lr * self.momentum
        return logits.detach()


class Unheard(Good):
    score_point = "whenever"  # type: ignore[assignment]


class NeedsASetting(Good):
    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64, power: float) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)


class OddSetting(Good):
    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64, loss: Any = RELU) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)


class Raises(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        raise KeyError("blocks.13")


class GivesClasses(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        return super().adapt(batch).argmax(1)


class GivesGradients(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        return super().adapt(batch).requires_grad_()


class GivesNothing(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        super().adapt(batch)
        return None  # type: ignore[return-value]


class GivesNan(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        return super().adapt(batch) / 0.0


class SpoilsImages(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        return super().adapt(batch.sub_(0.5))


class DrawsFromTorch(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        return super().adapt(batch + 0 * torch.rand(1))


class DrawsFromPython(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        random.random()
        return super().adapt(batch)


class SwitchesGradients(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        torch.set_grad_enabled(False)
        return super().adapt(batch)


class ChangesTheHead(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        with torch.no_grad():
            self.model.head.bias += 0.1  # type: ignore[union-attr,operator]
        return super().adapt(batch)


class Misnames(Good):
    def adapted_parameters(self) -> dict[str, Tensor]:
        return {"scale": self.model.norm.weight}  # type: ignore[union-attr,dict-item]


class AdaptsACopy(Good):
    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        self.copy = model.norm.weight.detach().clone()  # type: ignore[union-attr,operator]
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)

    def adapted_parameters(self) -> dict[str, Tensor]:
        return {"norm.weight": self.copy}

    def adapt(self, batch: Tensor) -> Tensor:
        with torch.no_grad():
            return self.model(batch)  # type: ignore[no-any-return]


class TakesAnyState(Good):
    def load_adapted_state(self, state: Any) -> None:
        super().load_adapted_state({key: value for key, value in state.items() if key != "nonsense"})


class PreparesWeights(Good):
    def prepare(self, source_batches: Any, labels: Any = None) -> None:
        super().prepare(source_batches)
        with torch.no_grad():
            self.model.norm.weight += 0.1  # type: ignore[union-attr,operator]


class WarmsUp(PreparesWeights):
    """Keeps its promise: what prepare left is what reset returns to, and what another cell gets."""

    prepare_adapts = True

    def prepare(self, source_batches: Any, labels: Any = None) -> None:
        super().prepare(source_batches)
        self.remember()

    def prepared_state(self) -> dict[str, Tensor]:
        return {"offset": self.offset, **self.snapshot}

    def load_prepared_state(self, state: Any) -> None:
        self.offset = state["offset"]
        self.load_adapted_state({"norm.weight": state["norm.weight"]})
        self.remember()


class WarmsUpOnce(WarmsUp):
    def remember(self) -> None:
        self._start = self._start or self.adapted_state()


class KeepsItsWarmUp(WarmsUp):
    def load_prepared_state(self, state: Any) -> None:
        self.offset = state["offset"]


class WarmsUpOnceElsewhere(WarmsUp):
    def load_prepared_state(self, state: Any) -> None:
        start = self._start
        super().load_prepared_state(state)
        self._start = start


class HandsOverNothing(Good):
    def prepared_state(self) -> dict[str, Tensor]:
        return {"offset": self.offset}

    def load_prepared_state(self, state: Any) -> None:
        pass


class SharesMomentum(Good):
    shared: Any = 0.0

    def adapt(self, batch: Tensor) -> Tensor:
        self.momentum = SharesMomentum.shared
        logits = super().adapt(batch)
        SharesMomentum.shared = self.momentum
        return logits


class Remembers(Good):
    def forget(self) -> None:
        self.momentum = getattr(self, "momentum", 0.0)


class StaysAdapted(Good):
    def reset(self) -> None:
        self.forget()


class ReusesItsAnswer(Good):
    answer: Any = None

    def forget(self) -> None:
        super().forget()
        self.answer = torch.zeros(8, self.num_classes)

    def adapt(self, batch: Tensor) -> Tensor:
        self.answer[: len(batch)] = super().adapt(batch)
        found: Tensor = self.answer[: len(batch)]
        return found


class CountsResets(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        self.resets += 1
        return super().adapt(batch)

    def reset(self) -> None:
        before = self.resets
        super().reset()
        self.resets = before


class NeedsGradients(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            raise RuntimeError("element 0 of tensors does not require grad")
        return super().adapt(batch)


class LooksAndLearns(Good):
    def features(self, batch: Tensor) -> dict[str, Tensor]:
        self.momentum = 0.0
        return super().features(batch)


class ShowsNothing(Good):
    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {}

    def predict(self, batch: Tensor) -> Tensor:
        return self.model(batch)  # type: ignore[no-any-return]


class UsesACopy(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        copy.deepcopy(self.model)(batch)
        return super().adapt(batch)


class LeavesHooks(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        self.model.head.register_forward_hook(lambda *call: None)
        return super().adapt(batch)


class WorksOn(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        threading.Thread(target=time.sleep, args=(1,), name="later", daemon=True).start()
        return super().adapt(batch)


class DividesBySpread(Good):
    def adapt(self, batch: Tensor) -> Tensor:
        return super().adapt(batch) / batch.std(0, correction=0).mean().clamp(max=1.0).ceil()


BROKEN: dict[type[Method], tuple[str, str]] = {
    NeedsASetting: ("it can be built", "needs the setting 'power'"),
    Unheard: ("it can be built", "score_point is 'whenever', expected one of pre-update, perturbed, post-update"),
    OddSetting: ("settings are plain data", "the default of 'loss' is ReLU(), which a record cannot hold as JSON"),
    Raises: ("logits are finite, detached and [B, classes]", "raised KeyError: 'blocks.13'"),
    GivesClasses: ("logits are finite, detached and [B, classes]", "adapt returned the shape (8,), expected (8, 10)"),
    GivesGradients: ("logits are finite, detached and [B, classes]", "logits that require gradients"),
    GivesNothing: ("logits are finite, detached and [B, classes]", "adapt returned NoneType, expected a tensor"),
    GivesNan: ("logits are finite, detached and [B, classes]", "NaN or infinite logits"),
    SpoilsImages: ("images are left alone", "adapt changed the images that it was given"),
    DrawsFromTorch: ("global state is left alone", "torch's random generator was changed: draw from a torch.Generator"),
    DrawsFromPython: ("global state is left alone", "Python's random generator was changed"),
    SwitchesGradients: ("global state is left alone", "torch's gradient mode was changed"),
    UsesACopy: ("every pass goes through the given model", "adapt computes 1.0 forwards per image that do not pass"),
    WorksOn: ("nothing runs outside adapt", "adapt left a thread running (later)"),
    LeavesHooks: ("the model's hooks are left alone", "adapt changed the hooks of head: remove them"),
    ChangesTheHead: ("only adapted tensors change", "'head.bias' was changed, but adapted_parameters() does not have"),
    Misnames: ("adapted tensors have the model's names", "the model's 'norm.weight' is called 'scale'"),
    AdaptsACopy: ("adapted tensors have the model's names", "'norm.weight' in adapted_parameters() is another tensor"),
    TakesAnyState: ("adapted state can be loaded", "took a tensor 'nonsense'"),
    PreparesWeights: (UNDECLARED, "prepare() changed 'norm.weight', and prepare_adapts is not set"),
    WarmsUpOnce: (UNDECLARED, "reset() does not return 'norm.weight' to what prepare() left: call remember() there"),
    KeepsItsWarmUp: (UNDECLARED, "prepared_state() does not hand over 'norm.weight'"),
    WarmsUpOnceElsewhere: (UNDECLARED, "reset() does not return 'norm.weight' to what load_prepared_state() left"),
    HandsOverNothing: ("prepared state can be handed over", "logits differ after load_prepared_state() (batch 1"),
    SharesMomentum: ("equal instances give equal logits", "a second instance, built alike, gives other logits (batch "),
    Remembers: ("reset replays a stream bit for bit", "a replay after reset() differs"),
    StaysAdapted: ("reset replays a stream bit for bit", "'norm.weight' is not back at its start"),
    ReusesItsAnswer: ("reset replays a stream bit for bit", "earlier logits were changed by a later adapt"),
    CountsResets: ("reset replays a stream bit for bit", "resets is 4 after reset()"),
    NeedsGradients: ("adapt switches gradients on itself", "raised RuntimeError: element 0 of tensors"),
    LooksAndLearns: ("features and predict change nothing", "changes what a later adapt does (batch 3 differs by"),
    ShowsNothing: ("features and predict change nothing", "features()['logits'] is not a tensor of shape (8, 10)"),
    DividesBySpread: ("equal images keep everything finite", "NaN or infinite logits for 8 equal images of value 0.0"),
}


def test_a_method_that_keeps_its_promises_passes() -> None:
    check_method(Good, model=shallow)
    check_method(Good, model=shallow, lr=0.01)
    check_method(WarmsUp, model=shallow)


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_promise_is_named_in_one_line(cls: type[Method]) -> None:
    promise, complaint = BROKEN[cls]
    SharesMomentum.shared = 0.0
    before = process_state()
    with pytest.raises(BrokenPromise) as broken:
        check_method(cls, model=shallow)
    assert process_state() == before, "a broken method spoils no other test"
    line = str(broken.value)
    assert line.startswith(f"{cls.__name__}: {promise}: "), line
    assert complaint in line
    assert "\n" not in line


def test_every_promise_can_be_broken() -> None:
    assert {promise for promise, _ in BROKEN.values()} == set(PROMISES)


def test_all_promises_are_listed_unless_nothing_can_be_built() -> None:
    listed = dict(check_promises(ShowsNothing, model=shallow))
    assert list(listed) == list(PROMISES)
    assert [promise for promise, complaint in listed.items() if complaint] == ["features and predict change nothing"]
    assert list(dict(check_promises(NeedsASetting, model=shallow))) == ["it can be built"]


def test_an_unknown_name_is_reported() -> None:
    with pytest.raises(BrokenPromise, match="tnet: it can be built: unknown method 'tnet'; did you mean 'tent'?"):
        check_method("tnet")


def test_the_command_line_shows_kept_and_broken_promises(
    cli: Cli, small_suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Registry.load
    monkeypatch.setattr(Registry, "load", lambda self, name: ShowsNothing if name == "tent" else real(self, name))
    status, shown, _ = cli("check", "--contract", "--suite", small_suite, "--set", "tent.lr=0.01")
    assert status == 2
    assert "ok    source: passes all 18 contract tests" in shown
    assert "ERROR tent (lr=0.01): features and predict change nothing: features()['logits'] is not a tensor" in shown
    assert "1 of 2 methods fail a contract test." in shown
    status, shown, _ = cli("check", "--contract", "--methods", "source")
    assert (status, "All methods pass the contract tests." in shown) == (0, True)
    status, _, said = cli("check", "--contract", "--methods", "tnet")
    assert (status, "unknown method 'tnet'; did you mean 'tent'" in said, said.count("\n")) == (2, True, 1)
