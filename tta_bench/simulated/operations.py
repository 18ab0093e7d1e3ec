"""What happens below autograd: each operation is refused as CUDA refuses it, counted, and done on the CPU."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tta_bench.simulated import lists, orders
from tta_bench.simulated.machine import Machine, line
from tta_bench.simulated.streams import merge
from tta_bench.simulated.tensor import Simulated, held

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


class Operations(TorchDispatchMode):
    """Runs operations on simulated GPUs."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.machine = machine
        self._noise = torch.Generator()
        self._noise.seed()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One operation, on the CPU or as on a GPU."""
        name, wanted = func._overloadpacket.__name__, kwargs.get("device")
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        ours = [x for x in tensors if isinstance(x, Simulated)]
        on_gpu = bool(ours) if wanted is None else torch.device(wanted).type in ("cuda", "meta")
        if not ours and not on_gpu:
            return func(*args, **kwargs)
        self.machine.init()
        self.machine.operations[name] += 1
        refuse(func, name, args, tensors, ours)
        self._keep_order(func, name, ours)
        if what := _wait(name, args, kwargs, on_gpu):
            self.machine.wait(what)
            for one in ours[:1]:
                merge(self.machine.host, self.machine.stream(one.gpu).now())
        gpu = torch.device(wanted) if on_gpu and wanted is not None and torch.device(wanted).type == "cuda" else None
        gpu = gpu or (ours[0].gpu if ours else self.machine.current)
        found = self._compute(func, name, args, kwargs, on_gpu, gpu)
        return self._returned(func, found, tensors, on_gpu, gpu)

    def _keep_order(self, func: Any, name: str, ours: list[Simulated]) -> None:
        """Refuse what another stream computes and this one has not waited for."""
        for one in ours:
            stream = self.machine.stream(one.gpu)
            if not stream.knows(*one.room.writer):
                raise RuntimeError(
                    f"{name} uses a tensor that another stream still computes: wait for its event first (at {line()})"
                )
        if func._schema.is_mutable:
            for one in ours[:1]:
                one.room.write(self.machine.stream(one.gpu))

    def _compute(self, func: Any, name: str, args: Any, kwargs: Any, on_gpu: bool, gpu: torch.device) -> Any:
        plain, named = tree_map(held, (args, kwargs))
        named |= {} if kwargs.get("device") is None else {"device": "cpu"}
        named.pop("pin_memory", None)
        if on_gpu and rounds_to_tf32(name):
            plain, named = tree_map(_as_tf32, (plain, named))
        draws = on_gpu and torch.Tag.nondeterministic_seeded in func.tags
        is_free = self.machine.is_unordered and on_gpu and not torch.are_deterministic_algorithms_enabled()
        with self._own_draws(gpu) if draws else nullcontext():
            found = orders.shuffled(func, name, plain, named, self._noise) if is_free else None
            if found is not None:
                return found
            found = func(*plain, **named)
        if is_free and name in lists.UNORDERED:
            tree_map(self._move_last_bit, found)
        return found

    def _move_last_bit(self, value: Any) -> None:
        """What another order of summation does where the terms are not known: a last bit more or less."""
        if isinstance(value, Tensor) and value.is_floating_point():
            sign = torch.randint(-1, 2, value.shape, generator=self._noise).to(value.dtype)
            value.add_(value * sign * torch.finfo(value.dtype).eps)

    def _returned(self, func: Any, found: Any, tensors: list[Tensor], on_gpu: bool, gpu: torch.device) -> Any:
        same = {id(held(x)): x for x in tensors}
        writes = any(a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments)
        if torch.Tag.inplace_view in func.tags:
            Tensor.data.__set__(tensors[0], Simulated(held(tensors[0]), gpu))  # type: ignore[attr-defined]

        def wrapped(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if writes and id(value) in same:  # changed in place: the same object
                return same[id(value)]
            if on_gpu:
                return Simulated(value, gpu)
            return value.clone() if id(value) in same else value

        return tree_map(wrapped, found)

    @contextmanager
    def _own_draws(self, gpu: torch.device) -> Iterator[None]:
        """In this block torch's global generator is that of a GPU; a generator that was given is not touched."""
        before, own = torch.get_rng_state(), self.machine.generators[gpu.index]
        torch.set_rng_state(own.get_state())
        try:
            yield
        finally:
            own.set_state(torch.get_rng_state())
            torch.set_rng_state(before)


def rounds_to_tf32(name: str) -> bool:
    """Whether an Ampere GPU or a later one would round the inputs of this operation, as torch's switches are."""
    if name in lists.CONVOLUTIONS:
        return torch._C._get_cudnn_allow_tf32()
    return name in (lists.MATRIX_PRODUCTS | lists.ATTENTION) and torch._C._get_cublas_allow_tf32()


def _as_tf32(value: Any) -> Any:
    """Float32 rounded to the ten bits of TF32."""
    if not isinstance(value, Tensor) or value.dtype != torch.float32:
        return value
    bits = value.contiguous().view(torch.int32)
    rounded = ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)
    return torch.where(value.isfinite(), rounded, value)


def refuse(func: Any, name: str, args: Any, tensors: list[Tensor], ours: list[Simulated]) -> None:
    """Raise where CUDA would, with the line that is to blame."""
    if name not in lists.COPIES:
        _refuse_mixed(func, name, args, tensors)
    is_product = name in lists.MATRIX_PRODUCTS or name == "convolution"
    if is_product and not all(x.is_floating_point() for x in ours):
        kind = next(x.dtype for x in ours if not x.is_floating_point())
        raise RuntimeError(f"\"{name}_cuda\" not implemented for '{kind}' (at {line()})")
    if ours and torch.are_deterministic_algorithms_enabled():
        if is_product and not os.environ.get(WORKSPACE):
            raise RuntimeError(f"{name}: deterministic cuBLAS needs {WORKSPACE}=:4096:8 (at {line()})")
        if name in lists.NOT_DETERMINISTIC and (name != "cumsum" or ours[0].is_floating_point()):
            message = f"{name}_cuda does not have a deterministic implementation (at {line()})"
            if not torch.is_deterministic_algorithms_warn_only_enabled():
                raise RuntimeError(message)
            warnings.warn(message, stacklevel=2)


def _refuse_mixed(func: Any, name: str, args: Any, tensors: list[Tensor]) -> None:
    cpu = [x for x in tensors if not isinstance(x, Simulated)]
    gpus = {str(x.device) for x in tensors} - {"cpu"}
    if name in lists.INDEXING and isinstance(args[0], Simulated):  # indices may be on the CPU
        fits = len(args) < 3 or isinstance(args[2], Simulated) or args[2].dim() == 0
    else:
        takes = torch.Tag.pointwise in func.tags or name in lists.TAKES_NUMBERS or name.startswith("_foreach_")
        into_cpu = func._schema.is_mutable and isinstance(args[0], Tensor) and not isinstance(args[0], Simulated)
        fits = not cpu or not gpus or (takes and all(x.dim() == 0 for x in cpu) and not into_cpu)
    if not fits or len(gpus) > 1:
        devices = " and ".join(sorted({str(x.device) for x in tensors}))
        raise RuntimeError(f"Expected all tensors to be on the same device, but found {devices} ({func}, at {line()})")


def _wait(name: str, args: Any, kwargs: Any, on_gpu: bool) -> str | None:
    """What the host waits for in this operation, if for anything."""
    if name in ("_to_copy", "copy_"):
        return _copy_wait(name, args, kwargs, on_gpu)
    if name == "repeat_interleave":
        return None if kwargs.get("output_size") else name
    if name in lists.INDEXING and isinstance(args[0], Simulated):
        indices = [index for index in args[1] if index is not None]
        is_fill = len(args) > 2 and not isinstance(args[2], Simulated)  # a number: CUDA fills where the mask is true
        if any(isinstance(index, Simulated) and index.dtype == torch.bool for index in indices):
            return None if is_fill else "mask as index"
        return None if all(isinstance(index, Simulated) for index in indices) else "CPU index"
    return name if name in lists.WAITS else None


def _copy_wait(name: str, args: Any, kwargs: Any, on_gpu: bool) -> str | None:
    """A copy waits, unless it may not and its memory is pinned; a single number travels with its kernel."""
    source, to_gpu = (args[0], on_gpu) if name == "_to_copy" else (args[1], isinstance(args[0], Simulated))
    if (name == "_to_copy" and kwargs.get("device") is None) or isinstance(source, Simulated) == to_gpu:
        return None
    is_number = name == "copy_" and source.dim() == 0 and to_gpu
    may_not_wait = kwargs.get("non_blocking") or args[2:3] == (True,)
    if is_number or (may_not_wait and (not to_gpu or source.is_pinned())):
        return None
    return "copy to the GPU" if to_gpu else "copy to the CPU"
