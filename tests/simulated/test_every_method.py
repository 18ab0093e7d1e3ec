"""Every method on a simulated GPU: built, prepared, adapted, predicting, reset; as on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.methods.test_every_method import MODELS, NAMES, QUICK, REFUSED
from tests.simulated.test_planted_bugs import PLANTED, Sound, bug_line
from tests.support.needed import needed, prompts_for
from tests.support.small import BATCHNORM_ONLY, model_for
from tta_bench import Method
from tta_bench.testing import BrokenPromise, check_method
from tta_bench.testing.promises import Subject
from tta_bench.testing.rehearsal import same_on_gpu


def settings(name: str) -> dict[str, Any]:
    return {**QUICK.get(name, {}), **needed(name)}


MANY_STEPS = ("cotta", "dda", "dept-g", "foa", "memo", "note", "rmt", "sotta", "adacontrast", "tribe")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in MANY_STEPS else ()) for n in NAMES])
def test_every_method_does_on_a_gpu_what_it_does_on_a_cpu(name: str) -> None:
    pixels = 32 if name in BATCHNORM_ONLY else 16
    same_on_gpu(Subject(name, settings(name), lambda: model_for(name), pixels), "simulated")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in NAMES for k in MODELS if (n, k) not in REFUSED])
def test_every_method_on_every_kind_of_model(name: str, kind: str, tmp_path: Path) -> None:
    given = settings(name)
    if "prompts" in given:  # trained for this model
        given["prompts"] = str(prompts_for(MODELS[kind](), tmp_path / "p.safetensors", pixels=32))
    same_on_gpu(Subject(name, given, MODELS[kind], 32), "simulated")


@pytest.mark.parametrize("cls", PLANTED[:7])
def test_authors_find_a_bug_without_a_gpu(cls: type[Method]) -> None:
    line = f"at simulated/test_planted_bugs.py:{bug_line(cls)}"
    with pytest.raises(BrokenPromise, match=f"a GPU gives what a CPU gives: raised .*{line}"):
        check_method(cls, device="simulated")


def test_a_sound_method_passes() -> None:
    check_method(Sound, device="simulated")
