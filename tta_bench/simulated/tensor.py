"""Tensors on simulated GPUs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack, handle_torch_function

from tta_bench.simulated.machine import Machine, line
from tta_bench.simulated.memory import Room

_Base: Any = Tensor  # torch's stubs know no properties where its tensors have attributes


class Simulated(_Base):  # type: ignore[misc]
    """A tensor on a simulated GPU. `held` has its values, on the CPU; to torch's C++ it is a meta tensor."""

    machine: Machine
    held: Tensor
    gpu: torch.device
    room: Room

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor, gpu: torch.device) -> Simulated:
        like = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made: Simulated = _Base._make_wrapper_subclass(cls, held.shape, device="meta", **like)
        machine = cls.machine
        made.held, made.gpu = held, gpu
        made.room = machine.rooms.of(held, machine.allocators[gpu.index], machine.stream(gpu))
        return made

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return cls.machine.run(func, args, kwargs or {})  # reached where torch calls below its modes

    @property
    def device(self) -> torch.device:
        return self.gpu

    @property
    def is_cuda(self) -> bool:
        return True

    @property
    def is_meta(self) -> bool:
        return False

    @property
    def data(self) -> Tensor:
        return Simulated(self.held, self.gpu)

    @data.setter
    def data(self, new: Simulated) -> None:
        _Base.data.__set__(self, new)
        self.held, self.gpu, self.room = new.held, new.gpu, new.room

    def to(self, *args: Any, copy: bool = False, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        parsed: Any = torch._C._nn._parse_to(*args, **kwargs)
        device, dtype, _, layout = parsed
        wanted = self.machine.gpu(device) if device is not None and device.type == "cuda" else device
        if wanted in (None, self.gpu) and dtype in (None, self.dtype) and layout is None and not copy:
            return self
        return super().to(*args, copy=copy, **kwargs)

    def cuda(self, device: Any = None, **kwargs: Any) -> Any:
        return self.to(self.machine.gpu(device), **kwargs)

    def get_device(self) -> int:
        return int(self.gpu.index)

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def numpy(self, **kwargs: Any) -> Any:
        raise TypeError(
            f"can't convert {self.gpu} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            f"first. (at {line()})"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    def pin_memory(self, device: Any = None) -> Tensor:
        raise RuntimeError(f"cannot pin '{self.gpu}': only dense CPU tensors can be pinned (at {line()})")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def new_tensor(self, data: Any, **kwargs: Any) -> Tensor:
        return torch.tensor(data, **{"dtype": self.dtype, "device": self.gpu, **kwargs})

    def record_stream(self, stream: Any) -> None:
        """CUDA would keep the memory until this stream has read it; here it is kept as long as it is used."""

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __repr__(self, **unused: Any) -> str:
        return f"{str(self.held)[:-1]}, device='{self.gpu}')"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return loaded, (self.held, self.gpu, self.requires_grad)

    def __deepcopy__(self, copies: dict[int, Any]) -> Any:
        if not self.is_leaf and _get_current_function_mode_stack():  # a mode may have its own way
            return handle_torch_function(Tensor.__deepcopy__, (self,), self, copies)
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user support the deepcopy protocol")
        if id(self) not in copies:
            made = copies[id(self)] = Simulated(self.held.clone(), self.gpu).requires_grad_(self.requires_grad)
            own = {key: value for key, value in self.__dict__.items() if key not in ("held", "gpu", "room")}
            made.__dict__.update(own)
            made.grad = None if self.grad is None else self.grad.__deepcopy__(copies)
        return copies[id(self)]


def loaded(held: Tensor, gpu: torch.device, requires_grad: bool) -> Any:
    """A tensor from a file."""
    return Simulated(held, gpu).requires_grad_(requires_grad)


def held(value: Any) -> Any:
    """The values of a simulated tensor; anything else as it is."""
    return value.held if isinstance(value, Simulated) else value
