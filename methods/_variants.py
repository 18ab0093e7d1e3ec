"""Methods that are another method with a few settings changed or added: each setting is stated once.

`tta-bench list`, the check of `--set` and the records read settings from the constructor's signature, so both
helpers keep it whole. They resolve annotations when a module is imported.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Collection
from inspect import Parameter
from typing import Any

Init = Callable[..., None]


def with_defaults(init: Init, **changed: Any) -> Init:
    """The same constructor with other defaults: `__init__ = with_defaults(Base.__init__, lr=0.1)`."""
    parameters = inspect.signature(init).parameters
    if unknown := sorted(set(changed) - set(parameters)):
        raise TypeError(f"{init.__qualname__} has no setting {unknown[0]!r}")

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **given: Any) -> None:
        init(self, *args, **{**changed, **given})

    replaced = [p.replace(default=changed.get(p.name, p.default)) for p in parameters.values()]
    return _described(construct, replaced, typing.get_type_hints(init))


def extends(base: Init, *, without: Collection[str] = ()) -> Callable[[Init], Init]:
    """Decorates an `__init__` that hands `**settings` on to `base`: it takes the settings of both."""

    def decorate(init: Init) -> Init:
        parameters = {k: p for k, p in inspect.signature(base).parameters.items() if k not in without}
        own = inspect.signature(init).parameters.items()
        parameters |= {k: p for k, p in own if p.kind is Parameter.KEYWORD_ONLY}
        accepted = set(parameters)

        @functools.wraps(init)
        def construct(self: Any, *args: Any, **given: Any) -> None:
            if unknown := sorted(set(given) - accepted):
                raise TypeError(f"{init.__qualname__} got an unexpected keyword argument {unknown[0]!r}")
            init(self, *args, **given)

        hints = typing.get_type_hints(base) | typing.get_type_hints(init)
        return _described(construct, list(parameters.values()), {k: v for k, v in hints.items() if k in accepted})

    return decorate


def _described(init: Init, parameters: list[Parameter], hints: dict[str, Any]) -> Init:
    init.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    init.__annotations__ = hints
    return init
