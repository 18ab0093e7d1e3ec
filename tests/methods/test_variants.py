"""Settings are stated once: variants of a method change or add some, and every reader of settings sees them all."""

from __future__ import annotations

import pickle
from typing import Any, Literal

import pytest
from torch import nn
from tta_bench_methods._variants import extends, with_defaults

from tta_bench import registry, settings
from tta_bench.errors import UserError
from tta_bench.static_facts import published_settings


class Base:
    def __init__(self, model: Any, *, num_classes: int, lr: float = 0.1, score: Literal["first", "second"] = "first"):
        self.seen = {"num_classes": num_classes, "lr": lr, "score": score}


class Changed(Base):
    __init__ = with_defaults(Base.__init__, score="second")


class Extended(Base):
    @extends(Base.__init__, without=("score",))
    def __init__(self, model: Any, *, weight: float = 2.0, **given: Any) -> None:
        super().__init__(model, **given)
        self.weight = weight


def test_a_changed_default_is_used_shown_and_can_be_set() -> None:
    cls: Any = Changed
    assert cls(None, num_classes=2).seen == {"num_classes": 2, "lr": 0.1, "score": "second"}
    assert cls(None, num_classes=2, lr=0.3, score="first").seen == {"num_classes": 2, "lr": 0.3, "score": "first"}
    assert settings.defaults(cls) == {"lr": 0.1, "score": "second"}
    assert pickle.loads(pickle.dumps(cls(None, num_classes=2))).seen["score"] == "second"


def test_added_settings_come_on_top_of_those_handed_on() -> None:
    cls: Any = Extended
    made = cls(None, num_classes=2, lr=0.3)
    assert (made.weight, made.seen["lr"]) == (2.0, 0.3)
    assert settings.defaults(cls) == {"lr": 0.1, "weight": 2.0}
    with pytest.raises(TypeError, match="unexpected keyword argument 'score'"):
        cls(None, num_classes=2, score="first")


@pytest.mark.parametrize(
    ("cls", "given", "said"),
    [
        (Changed, {"score": "third"}, "score: expected 'first' or 'second', got 'third'"),
        (Changed, {"rate": 1}, "no setting 'rate'"),
        (Extended, {"weight": "heavy"}, "weight: expected a number, got 'heavy'"),
        (Extended, {"lr": "fast"}, "lr: expected a number, got 'fast'"),
        (Extended, {"score": "first"}, "no setting 'score'"),
    ],
)
def test_settings_of_variants_are_checked_like_all(cls: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        settings.check("mine", cls, given)


def test_a_default_for_a_setting_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="has no setting 'rate'"):
        with_defaults(Base.__init__, rate=1)


def test_dpal_as_released_is_dpal_with_two_other_defaults() -> None:
    dpal, official = (registry.installed().load(name) for name in ("dpal", "dpal-official"))
    own, theirs = settings.defaults(official), settings.defaults(dpal)
    assert list(own) == list(theirs)
    assert {name for name in own if own[name] != theirs[name]} == {"similarity_batch", "score"}


@pytest.mark.parametrize("name", registry.installed().names())
def test_reports_read_the_same_defaults_without_importing_the_method(name: str) -> None:
    imported = settings.defaults(registry.installed().load(name))
    read = {key: value for key, value in published_settings(name).items() if key != "batch_size"}
    assert read.items() <= imported.items()
    assert all(isinstance(imported[key], float) for key in imported.keys() - read.keys()), "a constant was missed"


def test_a_wrong_argument_is_still_one_line() -> None:
    with pytest.raises(UserError, match="'eata' has no setting 'fisher'"):
        registry.build_method("eata", nn.LayerNorm(4), num_classes=2, params={"fisher": 1.0})
