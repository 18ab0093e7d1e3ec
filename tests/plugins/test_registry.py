"""Methods are found through entry points; a broken one does not affect the others."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from tta_bench import build_method, settings
from tta_bench.errors import UserError
from tta_bench.method import Method
from tta_bench.registry import Registry


class Distribution:
    def __init__(self, name: str) -> None:
        self.name = name


def entry(name: str, value: str, package: str) -> EntryPoint:
    point = EntryPoint(name, value, "tta_bench.methods")
    vars(point)["dist"] = Distribution(package)
    return point


class Picky(Method):
    def __init__(
        self, model: nn.Module, *, num_classes: int, batch_size: int = 64, lr: float | None = None,
        score: Literal["first", "second"] = "first", blocks: tuple[int, ...] = (), steps: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)

    def adapt(self, batch: Tensor) -> Tensor:
        return torch.zeros(len(batch), self.num_classes)


def test_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UserError, match="unknown method 'tnet'; did you mean 'tent'"):
        build_method("tnet", nn.Linear(1, 1), num_classes=2)


def test_an_uninstalled_checkout_says_what_to_do() -> None:
    with pytest.raises(UserError, match="no methods registered: run `make demo`"):
        Registry(claims={}).entry("tent")


def test_a_name_claimed_twice_names_both_packages() -> None:
    twice = Registry(claims={"mine": (entry("mine", "a:A", "pkg-a"), entry("mine", "b:B", "pkg-b"))})
    with pytest.raises(UserError, match="claimed by pkg-a and pkg-b"):
        twice.load("mine")


def test_a_broken_plug_in_is_one_line_with_its_error() -> None:
    broken = Registry(claims={"mine": (entry("mine", "no_such_module:Mine", "pkg-a"),)})
    with pytest.raises(UserError, match="'mine' of pkg-a cannot be imported .*ModuleNotFoundError"):
        broken.load("mine")


@pytest.mark.parametrize("name", ["my method", "a,b", "a=b", "a/b", " a", ""])
def test_a_name_that_the_command_line_cannot_take_is_refused(name: str) -> None:
    claims = Registry(claims={name: (entry(name, "tests.plugins.test_registry:Picky", "pkg-a"),)})
    with pytest.raises(UserError, match=rf"method '{name}' of pkg-a cannot be used: its name may have letters, digits"):
        claims.load(name)


@pytest.mark.parametrize("name", ["my-method", "my_method2", "my.method"])
def test_a_name_that_the_command_line_can_take_is_accepted(name: str) -> None:
    assert (
        Registry(claims={name: (entry(name, "tests.plugins.test_registry:Picky", "pkg-a"),)}).load(name).__name__
        == "Picky"
    )
    assert settings.parse([f"{name}.lr=0.5"]) == {name: {"lr": 0.5}}


def test_a_plug_in_that_is_not_a_method_is_refused() -> None:
    wrong = Registry(claims={"mine": (entry("mine", "pathlib:Path", "pkg-a"),)})
    with pytest.raises(UserError, match="pathlib:Path is not a subclass of tta_bench.method.Method"):
        wrong.load("mine")


def test_a_constructor_that_raises_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Picky):
        def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
            raise KeyError("no such block")

    monkeypatch.setattr(Registry, "load", lambda self, name: Broken)
    with pytest.raises(UserError, match="'broken' cannot be built: KeyError: 'no such block'"):
        build_method("broken", nn.Linear(1, 1), num_classes=2)


def test_unknown_setting_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'tent' has no setting 'rl'.*known:.*lr.*momentum"):
        build_method("tent", nn.LayerNorm(4), num_classes=2, params={"rl": 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lr": "fast"}, "lr: expected a number or none, got 'fast'"),
        ({"lr": True}, "lr: expected a number or none, got True"),
        ({"score": "third"}, "score: expected 'first' or 'second', got 'third'"),
        ({"blocks": 9}, "blocks: expected a list, got 9"),
        ({"steps": 1.5}, "steps: expected a whole number, got 1.5"),
    ],
)
def test_wrong_types_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        settings.check("picky", Picky, given)


@pytest.mark.parametrize("given", [{"lr": 1}, {"lr": None}, {"score": "second"}, {"blocks": [9, 10]}, {"steps": 2}])
def test_right_types_pass(given: dict[str, object]) -> None:
    settings.check("picky", Picky, given)


def test_command_line_settings_become_values() -> None:
    texts = ["a.lr=1e-3", "a.on=true", "b.x=none", "b.name=first", "b.blocks=[1, 2]", "my.method.lr=1"]
    assert settings.parse(texts) == {
        "a": {"lr": 0.001, "on": True},
        "b": {"x": None, "name": "first", "blocks": [1, 2]},
        "my.method": {"lr": 1},
    }


@pytest.mark.parametrize("text", ["lr=1", "sar.lr", ".lr=1", "sar.=1"])
def test_malformed_assignments_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="expected METHOD.SETTING=VALUE"):
        settings.parse([text])


def test_initial_state_is_where_reset_returns_to() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    start = {"1.bias": torch.full((4,), 0.5)}
    method = build_method("tent", model, num_classes=2, params={"lr": 0.1}, initial_state=start)
    method.adapt(torch.rand(4, 3, 8, 8))
    assert not torch.equal(method.adapted_state()["1.bias"], start["1.bias"])
    method.reset()
    assert torch.equal(method.adapted_state()["1.bias"], start["1.bias"])


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"1.bais": torch.zeros(4)}, "unknown tensor '1.bais'; did you mean '1.bias'"),
        ({"1.bias": torch.zeros(3)}, "shape"),
    ],
)
def test_a_wrong_initial_state_is_refused(state: dict[str, Tensor], said: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(UserError, match=said):
        build_method("tent", model, num_classes=2, initial_state=state)
