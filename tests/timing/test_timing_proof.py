"""Timing checks on real methods and a real clock: what got slower is caught, what did not is left alone."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.cli import Cli
from tta_bench.registry import installed

pytestmark = pytest.mark.slow  # on the wall clock; its baseline alone takes 30 s

Adapt = Callable[[Any, Tensor], Tensor]


def slowed(adapt: Adapt, share: float) -> Adapt:
    """The same step, then exponentials for a share of the time it took: matrix products would be counted as work."""
    block = torch.rand(64, 64)

    def longer(self: Any, batch: Tensor) -> Tensor:
        start = time.perf_counter()
        logits = adapt(self, batch)
        end = time.perf_counter() + share * (time.perf_counter() - start)
        while time.perf_counter() < end:
            block.exp()
        return logits

    return longer


def with_hidden_forward(adapt: Adapt) -> Adapt:
    """The same step plus an unneeded forward."""

    def longer(self: Any, batch: Tensor) -> Tensor:
        with torch.no_grad():
            self.model(batch)
        return adapt(self, batch)

    return longer


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline of TENT on this machine, taken by a separate process, as in an earlier CI job."""
    path = tmp_path_factory.mktemp("timing") / "baseline.json"
    command = [sys.executable, "-m", "tta_bench.cli.main", "timing", "record", "--out", str(path)]
    subprocess.run([*command, "--methods", "tent", "--budget", "30s"], check=True, capture_output=True)
    return path


def check(cli: Cli, path: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, TENT's verdict and the screen."""
    file = path.with_name("result.json")
    code, out, err = cli("timing", "check", "--baseline", path, "--json", file, *words)
    assert err == ""
    verdicts = {verdict["method"]: verdict for verdict in json.loads(file.read_text())["verdicts"]}
    return code, verdicts["tent"], out


def test_a_slowdown_of_a_third_is_caught(cli: Cli, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tent = installed().load("tent")
    monkeypatch.setattr(tent, "adapt", slowed(tent.adapt, 0.3))
    code, verdict, out = check(cli, recorded)
    assert (code, verdict["outcome"]) == (1, "slower"), out
    assert "tent: slower by more than 5 %" in out


def test_a_slowdown_of_a_tenth_is_caught(cli: Cli, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tent = installed().load("tent")
    monkeypatch.setattr(tent, "adapt", slowed(tent.adapt, 0.1))
    code, verdict, out = check(cli, recorded, "--budget", "3m")
    assert (code, verdict["outcome"]) == (1, "slower"), out


def test_a_hidden_forward_is_caught_without_a_clock(cli: Cli, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tent = installed().load("tent")
    monkeypatch.setattr(tent, "adapt", with_hidden_forward(tent.adapt))
    code, verdict, out = check(cli, recorded, "--exact-only")
    assert (code, verdict["outcome"]) == (1, "more work")
    assert "tent: more work per image than the baseline: sample-forwards 1 → 2" in out


def test_no_change_raises_no_alarm(cli: Cli, recorded: Path) -> None:
    code, verdict, out = check(cli, recorded)
    assert code in (0, 3), out  # a machine that is too busy may leave it open, but raises no false alarm
    assert verdict["outcome"] != "slower"
    assert check(cli, recorded, "--exact-only")[0] == 0


def test_a_baseline_of_other_hardware_says_so(cli: Cli, recorded: Path) -> None:
    data = json.loads(recorded.read_text())
    data["machine"]["device_name"] = "an abacus"
    other = recorded.with_name("other.json")
    other.write_text(json.dumps(data))
    assert "other hardware (an abacus" in check(cli, other, "--exact-only")[2]


def test_a_baseline_of_other_weights_is_refused(cli: Cli, recorded: Path) -> None:
    data = json.loads(recorded.read_text())
    data["workload"]["weights"] = "0"
    other = recorded.with_name("weights.json")
    other.write_text(json.dumps(data))
    code, _, err = cli("timing", "check", "--baseline", other)
    assert code == 2
    assert "the weights of suite 'digits-c-5'" in err


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (lambda m, b: torch.full((len(b), 10), torch.nan), "NaN"),
        (lambda m, b: torch.zeros(len(b), 3), "(32, 3)"),
        (lambda m, b: sys.exit(0), "SystemExit"),
        (lambda m, b: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_failing_method_does_not_pass(
    behaviour: Adapt, said: str, cli: Cli, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed().load("tent"), "adapt", behaviour)
    code, _, err = cli("timing", "check", "--baseline", recorded, "--exact-only")
    assert code == 2
    assert "method 'tent' failed" in err
    assert said in err


def test_counts_that_do_not_repeat_are_named(cli: Cli, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tent = installed().load("tent")
    adapt, calls = tent.adapt, iter(range(100))
    monkeypatch.setattr(tent, "adapt", lambda m, b: (m.model(b) if next(calls) == 5 else 0, adapt(m, b))[1])
    code, _, err = cli("timing", "check", "--baseline", recorded, "--exact-only")
    assert code == 2
    assert "after reset() the same batches" in err


def _steal_a_core() -> None:
    while True:
        sum(range(10**5))


@pytest.fixture
def thief() -> Iterator[None]:
    """A process that keeps one core busy."""
    process = multiprocessing.get_context("spawn").Process(target=_steal_a_core, daemon=True)
    process.start()
    yield
    process.kill()


def test_twenty_checks_beside_a_busy_process_raise_no_alarm(cli: Cli, recorded: Path, thief: None) -> None:
    found = [check(cli, recorded, "--budget", "30s")[1] for _ in range(20)]
    changes = [f"{100 * (verdict['change']['value'] - 1):+.1f}" for verdict in found]
    print("\n20 A/A checks:", *changes, "% |", *(verdict["outcome"] for verdict in found))
    assert "slower" not in [verdict["outcome"] for verdict in found]
