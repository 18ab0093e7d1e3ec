"""Mixed precision and compilation are optional, marked, and refused where they would crash."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from functools import partialmethod
from pathlib import Path

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

from tests.support.cli import Cli
from tests.support.records import make_cell, make_record
from tests.support.small import stream
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter
from tta_bench.models import precision
from tta_bench.report.rows import compare
from tta_bench.report.tables import layout


def test_a_cpu_that_crashes_in_bf16_is_refused_with_a_workaround(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    precision._bf16_crashes.cache_clear()
    with pytest.raises(UserError, match="ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"):
        precision.refuse_missing_bf16(torch.device("cpu"))
    precision._bf16_crashes.cache_clear()


def test_amp_never_crashes_the_tool(small_suite: Path, tmp_path: Path) -> None:
    """It runs, or it is refused with one line; it never dies of a signal."""
    command = [sys.executable, "-m", "tta_bench.cli.main", "run", "--suite", str(small_suite), "--methods", "source"]
    done = subprocess.run(
        [*command, "--limit", "32", "--amp", "bf16", "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode in (0, 2)
    assert ("small (bf16): accuracy" in done.stdout) if done.returncode == 0 else ("--amp bf16" in done.stderr)


def test_amp_and_compile_are_separate_cells_with_marked_rows() -> None:
    assert len({make_cell("sar", amp=amp, compile=c).key for amp in (None, "bf16") for c in (False, True)}) == 4
    records = [make_record("sar"), make_record("sar", amp="bf16"), make_record("sar", compile=True)]
    assert [row.label for row in compare(records).rows] == ["sar", "sar (bf16)", "sar (compiled)"]


def test_what_all_rows_share_is_in_the_caption_once() -> None:
    found = compare([make_record("source", amp="bf16"), make_record("sar", amp="bf16")])
    assert [row.label for row in found.rows] == ["source", "sar"]
    assert all(table.title.startswith("s (bf16): ") for table in layout(found).values())
    assert compare([make_record("source"), make_record("sar", amp="bf16")]).caption == "s"


def test_an_unknown_precision_is_refused(cli: Cli) -> None:
    status, _, err = cli("run", "--amp", "fp8")
    assert (status, "invalid choice" in err) == (2, True)


def test_under_amp_a_pass_uses_the_current_weights() -> None:
    """A cached cast would show a method's second pass the weights from before its update."""
    with precision.autocast(torch.device("cpu"), "bf16"):
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_cache_enabled()


def test_an_old_gpu_that_only_emulates_bf16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "V100")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    with pytest.raises(UserError, match="V100 has no bf16"):
        precision.refuse_missing_bf16(torch.device("cuda:1"))


@pytest.mark.filterwarnings("default")  # the compiler warns about its own future
@pytest.mark.parametrize("name", ["tent", "dpal", "t3a", "cfa", "foa"])
def test_a_model_is_compiled_once_and_stays_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the second cell of a process: the compiler gives up on code that it had to compile too often."""
    graphs: list[int] = []

    def counting(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        graphs.append(len(inputs))
        return graph.forward

    real = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(real, backend=counting))
    for _ in range(2):
        model = VisionTransformer(img_size=16, patch_size=8, num_classes=10, embed_dim=16, depth=2, num_heads=2)
        model = precision.compiled(model)
        method = build_method(name, model, num_classes=10, batch_size=8)
        if method.needs_source:
            method.prepare(stream(count=2))
        made = []
        with CostCounter(model) as cost:
            for batch in torch.rand(14, 8, 3, 16, 16, generator=torch.Generator().manual_seed(1)):
                graphs.clear()
                method.adapt(batch)
                made.append(len(graphs))
        assert made[0] > 0
        assert sum(made[3:]) == 0, made
        assert cost.sample_forwards >= 14 * 8


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler warns about its own future
@pytest.mark.parametrize("name", ["tent", "dpal", "t3a", "lame", "cfa", "foa-shift"])
def test_a_compiled_model_computes_the_same(name: str) -> None:
    """DPAL is the hard case: its hooks come after compilation and must not be lost."""

    def run(compiled: bool) -> tuple[torch.Tensor, int]:
        torch.manual_seed(0)
        model = VisionTransformer(img_size=16, patch_size=8, num_classes=10, embed_dim=16, depth=2, num_heads=2)
        model = precision.compiled(model) if compiled else model
        method = build_method(name, model, num_classes=10, batch_size=8)
        if method.needs_source:
            method.prepare(stream(count=2))
        batches = torch.rand(3, 8, 3, 16, 16, generator=torch.Generator().manual_seed(1))
        with CostCounter(model) as cost:
            return torch.cat([method.adapt(batch) for batch in batches]), cost.sample_forwards

    (plain, counted), (quick, also_counted) = run(False), run(True)
    torch.testing.assert_close(quick, plain, atol=1e-4, rtol=1e-3)
    assert counted == also_counted
