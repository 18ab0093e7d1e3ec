"""Sums in another order: the terms of an operation, along the dimension that it sums over, are shuffled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Terms:
    """Where the terms of an operation's sums are: arguments and results, by position, with their dimension."""

    given: dict[int, int]
    found: dict[int, int] = field(default_factory=dict)  # results that have the terms' order, too
    unless: int | None = None  # the argument that is true where terms are elsewhere: transposed, causal


_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
TERMS = {
    "mm": Terms({0: 1, 1: 0}),
    "addmm": Terms({1: 1, 2: 0}),
    "bmm": Terms({0: 2, 1: 1}),
    "baddbmm": Terms({1: 2, 2: 1}),
    "convolution": Terms({0: 1, 1: 1}, unless=6),  # channels of the input
    "convolution_backward": Terms({0: 0, 1: 0}, {0: 0}),  # images, as in the next
    "native_layer_norm_backward": Terms({0: 0, 1: 0, 3: 0, 4: 0}, {0: 0}),
    _ATTENTION: Terms({1: 2, 2: 2}, unless=4),  # keys and values
    f"{_ATTENTION}_backward": Terms({2: 2, 3: 2}, {1: 2, 2: 2}, unless=7),
}


def shuffled(func: Any, name: str, args: Any, kwargs: Any, generator: torch.Generator) -> Any:
    """The operation's result with the terms of its sums in another order; None if its terms are not known."""
    terms = TERMS.get(name)
    if terms is None or kwargs.get("attn_mask") is not None or not _have_terms(args, terms):
        return None
    first, dim = next(iter(terms.given.items()))
    order = torch.randperm(args[first].shape[dim], generator=generator)
    mixed = [x.index_select(terms.given[i], order) if i in terms.given else x for i, x in enumerate(args)]
    found = func(*mixed, **kwargs)
    if not terms.found:
        return found
    back = order.argsort()
    return tuple(
        x.index_select(terms.found[i], back) if i in terms.found and isinstance(x, Tensor) else x
        for i, x in enumerate(found)
    )


def _have_terms(args: Any, terms: Terms) -> bool:
    """Whether all these arguments have the same number of terms: a convolution in groups has not."""
    if terms.unless is not None and args[terms.unless : terms.unless + 1] in ([True], (True,)):
        return False
    given = [(args[i], dim) for i, dim in terms.given.items() if i < len(args)]
    fits = len(given) == len(terms.given) and all(isinstance(x, Tensor) and x.dim() > dim for x, dim in given)
    return fits and len({x.shape[dim] for x, dim in given}) == 1
