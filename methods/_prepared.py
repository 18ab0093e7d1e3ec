"""Checks of what `prepare` learned when it comes from a file instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from tta_bench.errors import UserError, did_you_mean

ANY = -1


def fitting(
    state: Mapping[str, Tensor], shapes: Mapping[str, Sequence[int]], *, method: str, like: Tensor
) -> dict[str, Tensor]:
    """Copies of the tensors on the device of `like`; a missing or unknown name, or another shape, is a UserError.

    A size of ANY in `shapes` fits every size.
    """
    for name in state:
        if name not in shapes:
            raise UserError(f"{method}, prepared state: unknown tensor '{name}'{did_you_mean(name, shapes)}")
    for name, shape in shapes.items():
        if name not in state:
            raise UserError(f"{method}, prepared state: no tensor '{name}'")
        found = tuple(state[name].shape)
        if len(found) != len(shape) or any(
            wanted not in (size, ANY) for size, wanted in zip(found, shape, strict=True)
        ):
            raise UserError(f"{method}, prepared state: '{name}' has shape {found}, expected {tuple(shape)}")
    return {name: state[name].detach().clone().to(like.device) for name in shapes}
