"""A method on a GPU: the same calls as on a CPU must work and give the same, on a real one or a simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from tta_bench.errors import UserError
from tta_bench.measure import environment
from tta_bench.measure.process import restored
from tta_bench.simulated import SimulatedGpus, is_on
from tta_bench.testing.promises import BrokenPromise, Subject

# How far numbers of size 1 may be apart. A real GPU rounds as it likes. A simulated one rounds as the CPU, yet a method
# with trained prompts was measured 3e-7 apart, for a reason that is not known; the bound leaves room for other models.
CLOSE, SIMULATED_CLOSE = 1e-4, 1e-5
BATCHES, SHORT = 6, 3  # the last batch has so many images


@contextmanager
def gpu(name: str) -> Iterator[torch.device]:
    """The device of that name, started; "simulated" needs no GPU."""
    wanted = "cuda" if name == environment.SIMULATED else name
    with restored(), SimulatedGpus() if name == environment.SIMULATED and not is_on() else nullcontext():
        yield environment.started(wanted)


def same_on_gpu(subject: Subject, name: str) -> None:
    """Raise BrokenPromise where a GPU gives something else than a CPU; what it refuses is raised as it comes."""
    with restored():
        expected = _outputs(subject)
    with gpu(name) as device:
        if device.type == "cpu":
            raise UserError(f"device '{name}': expected a GPU or 'simulated'")
        found = _outputs(replace(subject, device=device, kept={}))
    bound = SIMULATED_CLOSE if name == environment.SIMULATED else CLOSE
    for what, tensor in expected.items():
        apart = (found[what].double() - tensor.double()).abs().max().item() if tensor.numel() else 0.0
        scale = 1 + (tensor.double().abs().max().item() if tensor.numel() else 0.0)
        if not apart <= bound * scale:
            raise BrokenPromise(f"{what} differs from the CPU's by up to {apart:.3g} (at most {bound * scale:.2g})")


def _outputs(subject: Subject) -> dict[str, Tensor]:
    """All that a method gives: logits, predictions, features and states, before and after `reset`."""
    method = subject.build()
    batches = subject.batches(BATCHES, last=SHORT)
    found = {f"batch {number}": method.adapt(batch) for number, batch in enumerate(batches, 1)}
    found["predict()"] = method.predict(batches[0])
    with torch.no_grad():
        found |= {f"features()['{key}']": value for key, value in method.features(batches[1]).items()}
    found |= {f"adapted '{key}'": value for key, value in method.adapted_state().items()}
    if state := method.prepared_state():
        other = subject.build_unprepared()
        other.load_prepared_state({key: value.to(subject.device) for key, value in state.items()})
        found["batch 1 with handed-over state"] = other.adapt(batches[0])
    method.reset()
    found["batch 1 after reset()"] = method.adapt(batches[0])
    return {what: tensor.detach().cpu() for what, tensor in found.items()}
