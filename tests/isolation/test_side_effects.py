"""One method cannot affect another: process state is restored, and violations are noted in the record."""

from __future__ import annotations

import copy
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tta_bench
from tests.support.works import CPU, requests
from tta_bench import Method, build_method, registry
from tta_bench.isolation.side_effects import Watch, threads
from tta_bench.measure.process import process_state, restored
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder
from tta_bench.runs.execute import run_left
from tta_bench.runs.watcher import Watcher


class Hostile(Method):
    """Source with something nasty in each step."""

    deed: ClassVar[Callable[[Any, Tensor], Any]]

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        instead = type(self).deed(self, batch)
        return instead if isinstance(instead, Tensor) else self.model(batch)


@pytest.fixture
def baseline(small_suite: Path, tmp_path: Path) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    return run(small_suite, tmp_path / "baseline", ("source",))[0]


@pytest.fixture(autouse=True)
def _hostile() -> Iterator[None]:
    registry.installed().given["hostile"] = Hostile
    yield
    registry.installed().given.clear()


def run(suite: Path, folder: Path, methods: tuple[str, ...]) -> tuple[dict[str, Any], list[Any]]:
    """Source's predictions by task, and the other's records."""
    store = Store.create(folder, "small")
    records = run_left(requests(suite, limit=32, methods=methods), Binder(CPU), store, Watcher())
    own = {r.cell.name: store.predictions(r).confidence for r in records.values() if r.cell.spec.method == "source"}
    return own, [record for record in records.values() if record.cell.spec.method != "source"]


def leave_a_hook(method: Method, batch: Tensor) -> None:
    nn.modules.module.register_module_forward_hook(lambda module, args, out: torch.zeros_like(out))


def blank(method: Method, batch: Tensor) -> None:
    batch.zero_()


def raise_a_bias(method: Any, batch: Tensor) -> None:
    method.model.head.bias.add_(1)


def raise_a_bias_in_silence(method: Any, batch: Tensor) -> None:
    method.model.head.bias.data.add_(1)


def start_a_thread(method: Method, batch: Tensor) -> None:
    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()


def start_a_short_thread(method: Any, batch: Tensor) -> None:
    """Works on after `adapt`, but not until the end of the stream."""
    if hasattr(method, "thread"):
        method.thread.join()
    else:
        method.thread = threading.Thread(target=time.sleep, args=(0.5,))
        method.thread.start()


def leave_a_hook_in_the_model(method: Any, batch: Tensor) -> None:
    method.model.head.register_forward_hook(lambda *call: None)


def swap_two_classes(method: Any, batch: Tensor) -> None:
    weight = method.model.head.weight
    weight[:2] = weight[[1, 0]]


def add_a_weight(method: Any, batch: Tensor) -> None:
    method.model.scale = nn.Parameter(torch.ones(1))


def remove_a_weight(method: Any, batch: Tensor) -> None:
    method.model.head.bias = None


def lower_precision(method: Method, batch: Tensor) -> None:
    torch.set_float32_matmul_precision("medium")


def use_threads(method: Method, batch: Tensor) -> None:
    torch.set_num_threads(torch.get_num_threads() + 1)


DEEDS: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "dtype": (lambda m, b: torch.set_default_dtype(torch.float64), "changed torch's default dtype (restored)"),
    "hook": (leave_a_hook, "changed torch's global hooks (restored)"),
    "threads": (use_threads, "changed torch's number of threads (restored)"),
    "seed": (lambda m, b: torch.manual_seed(7), "changed torch's random generator (restored)"),
    "numpy": (lambda m, b: np.random.rand(), "changed numpy's random generator (restored)"),
    "python": (lambda m, b: random.random(), "changed Python's random generator (restored)"),
    "precision": (
        lower_precision,
        "changed torch's matmul precision (restored)",
    ),
    "mkldnn": (lambda m, b: torch.backends.mkldnn.set_flags(False), "changed torch's backend flags (restored)"),
    "signal": (lambda m, b: signal.signal(signal.SIGTERM, lambda *call: None), "changed signal handlers (restored)"),
    "folder": (lambda m, b: os.chdir("/"), "changed the working directory (restored)"),
    "environment": (lambda m, b: os.environ.update(EVIL="1"), "changed environment variables (restored)"),
    "batch": (blank, "changed its input batch"),
    "weights": (raise_a_bias, "changed 1 weights outside adapted_parameters()"),
    "data": (raise_a_bias_in_silence, "changed 1 weights outside adapted_parameters()"),
    "order of weights": (swap_two_classes, "changed 1 weights outside adapted_parameters()"),
    "added weight": (add_a_weight, "changed 1 weights outside adapted_parameters()"),
    "removed weight": (remove_a_weight, "changed 1 weights outside adapted_parameters()"),
    "thread": (start_a_thread, "left a thread running"),
    "short thread": (start_a_short_thread, "left a thread running"),
    "model's hooks": (leave_a_hook_in_the_model, "changed the model's hooks"),
    "device": (lambda m, b: torch.set_default_device("meta"), "changed torch's default device (restored)"),
    "hangup": (lambda m, b: signal.signal(signal.SIGHUP, lambda *_: None), "changed signal handlers (restored)"),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_a_violation_is_recorded_and_changes_no_other_result(
    deed: str, small_suite: Path, tmp_path: Path, baseline: dict[str, Any]
) -> None:
    Hostile.deed, said = DEEDS[deed]
    source, others = run(small_suite, tmp_path / "run", ("hostile", "source"))
    assert all(said in record.measured.remarks for record in others), [
        record.measured.remarks or record.reason for record in others
    ]
    for task, confidence in baseline.items():
        assert np.array_equal(source[task], confidence), "bit for bit"


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (lambda m, b: nn.Parameter(m.model(b)), "adapt returned a Parameter of torch.float32"),
        (lambda m, b: m.model(b).long(), "adapt returned a Tensor of torch.int64"),
        (lambda m, b: m.model(b).requires_grad_(), "adapt returned logits with a graph: detach them"),
    ],
)
def test_bad_logits_fail_the_cell(deed: Any, said: str, small_suite: Path, tmp_path: Path) -> None:
    Hostile.deed = deed
    _, others = run(small_suite, tmp_path / "run", ("hostile",))
    assert all(record.status == "failed" and said in record.reason for record in others)


def test_a_property_cannot_hide_work(small_suite: Path, tmp_path: Path) -> None:
    class Sly(Hostile):
        @property
        def resets(self) -> int:  # type: ignore[override]
            return 0

        @resets.setter
        def resets(self, value: int) -> None: ...

    registry.installed().given["sly"] = Sly
    Hostile.deed = lambda m, b: None
    _, others = run(small_suite, tmp_path / "run", ("sly",))
    assert all("resets of Sly must be a plain int" in record.reason for record in others)


def test_a_patched_clock_times_nothing(small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    Hostile.deed = lambda m, b: None
    _, others = run(small_suite, tmp_path / "run", ("hostile",))
    assert all(record.measured.seconds["adapt"] > 0 for record in others)


def test_a_method_may_replace_the_parameters_that_it_adapts(small_suite: Path, tmp_path: Path) -> None:
    class Replacing(Hostile):
        def adapted_parameters(self) -> dict[str, Tensor]:
            return {"head.weight": self.model.head.weight}  # type: ignore[dict-item, union-attr]

    def replace_weight(method: Any, batch: Tensor) -> None:
        method.model.head.weight = nn.Parameter(method.model.head.weight * 0.99)

    registry.installed().given["replacing"] = Replacing
    Hostile.deed = replace_weight
    _, others = run(small_suite, tmp_path / "run", ("replacing",))
    assert [(record.status, record.reason, record.measured.remarks) for record in others] == [("done", "", [])] * 2


def new_precisions() -> list[str]:
    """The attributes that newer versions of torch have for the precision of float32."""
    homes = ("", "cudnn.", "cuda.matmul.", "cudnn.conv.", "cudnn.rnn.", "mkldnn.", "mkldnn.matmul.", "mkldnn.conv.")
    there = hasattr(torch.backends, "fp32_precision")
    return [f"torch.backends.{home}fp32_precision = 'bf16'" for home in homes if there and home[:2] != "cu"] + [
        f"torch.backends.{home}fp32_precision = 'tf32'" for home in homes if there
    ]


OLD_PRECISIONS = ["torch.set_float32_matmul_precision('medium')", "torch.backends.cudnn.allow_tf32 = False"]


@pytest.mark.parametrize("user", ["pass", *OLD_PRECISIONS, *new_precisions()])
@pytest.mark.parametrize("method", [*OLD_PRECISIONS, *new_precisions()])
def test_every_setting_of_precision_is_restored(user: str, method: str) -> None:
    with restored():
        exec(user)
        before = process_state()
        with restored() as changed:
            exec(method)
            differs = process_state() != before
        assert process_state() == before
        assert changed == ["torch's matmul precision"] * differs
    assert torch.get_float32_matmul_precision() == "highest"


def test_what_cannot_be_restored_does_not_keep_the_rest_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")

    def removing() -> None:
        with restored():
            os.chdir("/")
            (tmp_path / "home").rmdir()
            os.environ["EVIL"] = "1"

    with pytest.raises(FileNotFoundError):
        removing()
    assert "EVIL" not in os.environ


def test_a_removed_working_directory_is_left(tmp_path: Path) -> None:
    with restored() as changed:
        (tmp_path / "gone").mkdir()
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
    assert (changed, Path.cwd()) == (["the working directory"], tmp_path)


def test_honest_methods_get_no_remark(small_suite: Path, tmp_path: Path) -> None:
    store = Store.create(tmp_path / "run", "small")
    asked = requests(small_suite, limit=32, methods=("tent", "eata", "sar", "dpal", "t3a"), tasks=("brightness",))
    records = run_left(asked, Binder(CPU), store, Watcher())
    assert len(records) == 5
    assert [record.measured.remarks for record in records.values()] == [[]] * 5


def test_the_table_says_so(small_suite: Path, tmp_path: Path) -> None:
    Hostile.deed = lambda m, b: torch.manual_seed(3)
    results = tta_bench.run(["source", "hostile"], str(small_suite), limit=32, device="cpu", out=tmp_path / "run")
    assert "WARNING hostile: changed torch's random generator (restored)." in repr(results.table())


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_changed_weight_is_noticed_on_a_copy_and_on_the_model_itself(is_copy: bool) -> None:
    source = nn.Linear(4, 2)
    model = copy.deepcopy(source) if is_copy else source
    watch = Watch(build_method("source", model, num_classes=2, batch_size=4), model, threads(), source)
    model.bias.data.add_(1)
    assert watch.close() == ["changed 1 weights outside adapted_parameters()"]
