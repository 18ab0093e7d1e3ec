"""The promises of a method, for its author's own tests: `check_method("mine")` or `check_method(Mine, lr=0.1)`.

Every built-in method passes the same checks. They run in seconds, on a CPU, on a small ViT that they build themselves:

    from tta_bench.testing import check_method

    def test_mine() -> None:
        check_method(Mine)

`tta-bench check --contract --methods mine` shows all promises of an installed method, kept and broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from tta_bench.errors import UserError
from tta_bench.measure.process import restored
from tta_bench.method import Method
from tta_bench.plugins import one_line
from tta_bench.testing.promises import PROMISES, BrokenPromise, Subject, is_built
from tta_bench.testing.small import PIXELS, stir, stream, tiny_vit

__all__ = ["PROMISES", "BrokenPromise", "check_method", "check_promises", "stir", "stream", "tiny_vit"]


def check_method(
    method: str | type[Method], *, model: Callable[[], nn.Module] | None = None, pixels: int = PIXELS, **given: Any
) -> None:
    """Raise BrokenPromise at the first promise that a method breaks, with these settings.

    `model` makes the network to adapt, for images of `pixels` and with 10 classes; every call must give an equal one.
    """
    for promise, complaint in check_promises(method, model=model, pixels=pixels, **given):
        if complaint is not None:
            raise BrokenPromise(f"{method if isinstance(method, str) else method.__name__}: {promise}: {complaint}")


def check_promises(
    method: str | type[Method], *, model: Callable[[], nn.Module] | None = None, pixels: int = PIXELS, **given: Any
) -> Iterator[tuple[str, str | None]]:
    """Each promise, with what is wrong if it is broken; one that cannot be tried stops the others."""
    subject = Subject(method, given, model or tiny_vit, pixels)
    for promise, holds in PROMISES.items():
        try:
            with restored():
                holds(subject)
            complaint = None
        except BrokenPromise as broken:
            complaint = str(broken)
        except UserError as error:
            complaint = str(error)
        except (Exception, SystemExit) as error:  # a stranger's method may raise anything
            complaint = f"raised {one_line(error)}"
        yield promise, complaint
        if complaint is not None and holds is is_built:
            return
