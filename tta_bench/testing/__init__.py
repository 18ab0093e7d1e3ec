"""Checks the promises of a method, for its author's own tests: `check_method("mine")`, `check_method(Mine, lr=0.1)`.

Every built-in method passes the same checks. They run in seconds, on a CPU, on a small ViT that they build themselves:

    from tta_bench.testing import check_method

    def test_mine() -> None:
        check_method(Mine)

`check_method(Mine, device="simulated")` also rehearses it on a simulated GPU: without a GPU, it finds tensors on the
wrong device, generators of the wrong kind and the like, and names the line. `device="cuda"` uses a real one.

`tta-bench check --contract --methods mine` shows all promises of an installed method, kept and broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import nn

from tta_bench.errors import UserError, reason
from tta_bench.measure.process import restored
from tta_bench.method import Method
from tta_bench.testing.promises import PROMISES, BrokenPromise, Subject, is_built, start_of
from tta_bench.testing.rehearsal import same_on_gpu
from tta_bench.testing.small import PIXELS, stir, stream, tiny_resnet, tiny_vit

__all__ = [
    "PROMISES",
    "BrokenPromise",
    "check_method",
    "check_promises",
    "remarks_on",
    "stir",
    "stream",
    "tiny_resnet",
    "tiny_vit",
]

ON_GPU = "a GPU gives what a CPU gives"


def check_method(
    method: str | type[Method],
    *,
    model: Callable[[], nn.Module] | None = None,
    pixels: int = PIXELS,
    device: str = "cpu",
    **given: Any,
) -> list[str]:
    """Raise BrokenPromise at the first promise that a method breaks, with these settings; returns `remarks_on` it.

    `model` makes the network to adapt, for images of `pixels` and with 10 classes; every call must give an equal one.
    Without it, that is a ViT, or a ResNet with BatchNorm for a method that refuses ViTs. With a `device` ("simulated",
    "cuda" or "cuda:N"), the method must also work there and give what it gives on a CPU.
    """
    for promise, complaint in check_promises(method, model=model, pixels=pixels, device=device, **given):
        if complaint is not None:
            raise BrokenPromise(f"{method if isinstance(method, str) else method.__name__}: {promise}: {complaint}")
    return remarks_on(method, model=model, pixels=pixels, **given)


def remarks_on(
    method: str | type[Method], *, model: Callable[[], nn.Module] | None = None, pixels: int = PIXELS, **given: Any
) -> list[str]:
    """What a reader of tables should know about a method that keeps all promises."""
    subject = Subject(method, given, model, pixels) if model else _on_own_model(method, given)
    with restored():
        return start_of(subject)


def check_promises(
    method: str | type[Method],
    *,
    model: Callable[[], nn.Module] | None = None,
    pixels: int = PIXELS,
    device: str = "cpu",
    **given: Any,
) -> Iterator[tuple[str, str | None]]:
    """Each promise, and what is wrong if it is broken; stops if the method cannot be built."""
    subject = Subject(method, given, model, pixels) if model else _on_own_model(method, given)
    promises = dict(PROMISES)
    if device != "cpu":
        promises[ON_GPU] = partial(same_on_gpu, name=device)
    for promise, holds in promises.items():
        try:
            with restored():
                holds(subject)
            complaint = None
        except (BrokenPromise, UserError) as error:
            complaint = str(error)
        except (Exception, SystemExit) as error:  # third-party code may raise anything
            complaint = f"raised {reason(error)}"
        yield promise, complaint
        if complaint is not None and holds is is_built:
            return


def _on_own_model(method: str | type[Method], given: dict[str, Any]) -> Subject:
    """The ViT, or the ResNet if the method accepts only that."""
    vit, resnet = Subject(method, given, tiny_vit, PIXELS), Subject(method, given, tiny_resnet, 2 * PIXELS)
    for subject in (vit, resnet):
        try:
            with restored():
                subject.build_unprepared()
        except Exception:  # checking the promises reports what is wrong
            continue
        return subject
    return vit
