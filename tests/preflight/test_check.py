"""`check` lets every method adapt to a few real images, and so finds what would fail a cell before time is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tests.support import trees
from tests.support.cli import Cli
from tta_bench import registry
from tta_bench.datasets.digits_c import DigitsC
from tta_bench.errors import UserError
from tta_bench.method import Method

Behaviour = Callable[["Toy", Tensor], Tensor | None]


class Toy(Method):
    """A method whose behaviour a test chooses."""

    needs_source: ClassVar[bool] = False
    behaviour: ClassVar[Behaviour]
    seen: ClassVar[list[tuple[int, ...]]]
    prepared: ClassVar[list[int]]

    def prepare(self, source_batches: Iterable[Tensor]) -> None:
        self.prepared += [len(batch) for batch in source_batches]

    def adapt(self, batch: Tensor) -> Tensor:
        self.seen.append(tuple(batch.shape))
        return type(self).behaviour(self, batch)  # type: ignore[return-value]


def zeros(method: Toy, batch: Tensor) -> Tensor:
    return torch.zeros(len(batch), method.num_classes)


def raises(method: Toy, batch: Tensor) -> Tensor:
    raise KeyError("no\nkey")


def spoilt_by_its_update(method: Toy, batch: Tensor) -> Tensor:
    return torch.full((len(batch), method.num_classes), 0.0 if len(method.seen) == 1 else torch.nan)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> type[Toy]:
    """A registry in which the name `source` means the toy."""
    real = registry.Registry.load
    monkeypatch.setattr(registry.Registry, "load", lambda self, name: Toy if name == "source" else real(self, name))
    Toy.behaviour, Toy.needs_source, Toy.seen, Toy.prepared = zeros, False, [], []
    return Toy


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (raises, "adapt failed: KeyError: 'no\\nkey'"),
        (lambda m, b: torch.zeros(len(b), 7), "adapt returned (2, 7) after 0 images, expected logits of shape (2, 10)"),
        (lambda m, b: None, "adapt returned NoneType"),
        (spoilt_by_its_update, "adapt returned NaN or infinite logits after 2 images"),
    ],
)
def test_a_method_that_would_fail_its_cells_is_found(
    cli: Cli, small_suite: Path, toy: type[Toy], behaviour: Behaviour, said: str
) -> None:
    toy.behaviour = behaviour
    status, shown, _ = cli("check", "--suite", small_suite)
    assert status == 2
    assert f"ERROR source on digits-vit: {said}" in shown
    assert "ok    tent on digits-vit: adapts 3,200 numbers; tried on 4 images of contrast" in shown
    assert shown.count("ERROR") == 1


def test_two_batches_of_two_images_are_enough(cli: Cli, small_suite: Path, toy: type[Toy]) -> None:
    assert cli("check", "--suite", small_suite, "--methods", "source")[0] == 0
    assert toy.seen == [(2, 3, 32, 32)] * 2


def test_a_batch_is_no_larger_than_the_runs(cli: Cli, small_suite: Path, toy: type[Toy]) -> None:
    cli("check", "--suite", small_suite, "--methods", "source", "--scenario", "single")
    assert [shape[0] for shape in toy.seen] == [1, 1]


def test_source_images_come_first_where_they_are_needed(cli: Cli, small_suite: Path, toy: type[Toy]) -> None:
    toy.needs_source = True
    assert cli("check", "--suite", small_suite, "--methods", "source")[0] == 0
    assert toy.prepared == [2]


def test_a_method_without_its_source_images_is_not_tried(
    cli: Cli, small_suite: Path, toy: type[Toy], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(self: DigitsC, task: str | None = None) -> None:
        raise UserError("no clean images")

    monkeypatch.setattr(DigitsC, "source_images", nothing)
    toy.needs_source = True
    status, shown, _ = cli("check", "--suite", small_suite)
    assert (status, shown.count("ERROR"), toy.seen) == (2, 1, [])
    assert "ERROR source images: no clean images" in shown
    assert "not tried" in shown


def test_everything_that_the_scenario_reads_is_checked(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    status, shown, _ = cli("check", "--suite", small_suite, "--methods", "source", "--scenario", "gradual")
    assert (status, shown.count("at severity 3")) == (0, 2)
    trees.imagenet_c(tmp_path, severities=(1, 2, 4, 5))
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: mine\nabout: a test\nmodel: none\nbatch_size: 2\ntasks: [fog]\n"
        "data: {kind: imagenet-c, severity: 5, allow_partial: true}\nmethods: {source: {}}\n"
    )
    status, shown, _ = cli("check", "--suite", suite, "--data-root", tmp_path, "--scenario", "gradual")
    assert status == 2
    assert "ERROR task fog at severity 3" in shown


@pytest.mark.parametrize("verb", ["check", "run"])
def test_contradicting_options_are_refused_by_check_and_run(
    cli: Cli, small_suite: Path, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "file").touch()
    status, _, err = cli(verb, "--suite", small_suite, "--cache", tmp_path / "file")
    assert (status, "file is a file, expected a folder" in " ".join(err.split())) == (2, True)
    status, _, err = cli(verb, "--suite", small_suite, "--busy", "stale")
    assert (status, "--busy requires --stream-speed above 0" in err) == (2, True)
    status, _, err = cli(verb, "--suite", small_suite, "--scenario", "single", "--batch-size", "4")
    assert (status, "--scenario single requires batches of 1, got 4" in err) == (2, True)
    status, _, err = cli(verb, "--suite", small_suite, "--remember", "16")
    assert (status, err.count("\n"), "remember:16 requires one stream over all tasks" in err) == (2, 1, True)
