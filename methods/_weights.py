"""All weights and biases of a model, and other values for them: a teacher's, or those of the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tta_bench.errors import UserError

from ._ranges import shares

TEACHER = "teacher."


def weights_and_biases(model: nn.Module, *, without: Sequence[nn.Module] = ()) -> dict[str, nn.Parameter]:
    """Every parameter that its layer calls `weight` or `bias`, by the model's own names.

    The rule of the released CoTTA and AdaContrast: of a ViT it leaves out the class token and the positions.
    """
    left_out = {id(parameter) for part in without for parameter in part.parameters()}
    found = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name.rpartition(".")[2] in ("weight", "bias") and id(parameter) not in left_out
    }
    if not found:
        raise UserError(f"{type(model).__name__} has no layer with a `weight` or `bias` to adapt")
    return found


class Teacher:
    """A second set of values for a model's parameters that follows them slowly.

    Only the values are kept: the model itself runs with them for a while, so a compiled model stays compiled, its
    hooks and counters see every pass, and there are no activations or buffers of a second model.
    """

    def __init__(self, student: Mapping[str, Tensor], momentum: float) -> None:
        shares(teacher_momentum=momentum)
        self.momentum = momentum
        self._student = list(student.values())
        self.values = {TEACHER + name: tensor.detach().clone() for name, tensor in student.items()}

    @torch.no_grad()
    def follow(self) -> None:
        """Take a step of 1 - momentum towards the student.

        Two products, as released. `lerp` rounds the small difference: with a momentum of 0.9 one weight in ten lies
        halfway between two floats, and all of these move too far.
        """
        values = list(self.values.values())
        torch._foreach_mul_(values, self.momentum)
        torch._foreach_add_(values, self._student, alpha=1 - self.momentum)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block the model has the teacher's weights."""
        with lent(self._student, list(self.values.values())):
            yield


@contextmanager
def lent(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> Iterator[None]:
    """Within the block the parameters have other values, without a copy; afterwards their own again.

    For passes without gradients: a graph made outside must not be followed back inside.
    """
    own = [parameter.data for parameter in parameters]
    _point(parameters, values)
    try:
        yield
    finally:
        _point(parameters, own)


def _point(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.data = value


def without_twins(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same state with one tensor for a student's value and the teacher's, where they are equal.

    At the start they are: a snapshot then takes the memory of one model rather than of two.
    """
    return {
        name: state[own]
        if name.startswith(TEACHER) and (own := name[len(TEACHER) :]) in state and torch.equal(state[own], tensor)
        else tensor
        for name, tensor in state.items()
    }
