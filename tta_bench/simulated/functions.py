"""What happens above autograd: names of devices, generators, indices, pinned memory, attention and autocast."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from tta_bench.simulated import lists
from tta_bench.simulated.machine import Generator, Machine, line
from tta_bench.simulated.tensor import Simulated

_CUDA = re.compile(r"cuda(:\d+)?")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_HAVE_POLICY = lists.LOWER | lists.FULL | lists.WIDEST | lists.BANNED


class Functions(TorchFunctionMode):
    """Sees each call of torch's Python functions, and changes what its C++ would ask a driver for."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if func is torch.device or name in ("__get__", "__set__"):
            return func(*args, **kwargs)
        args, kwargs = [self._numbered(x) for x in args], {key: self._numbered(x) for key, x in kwargs.items()}
        if name in ("cuda", "to") and len(args) == 2 and isinstance(args[1], int):
            args[1] = self.machine.gpu(args[1])
        if name == "cuda" and not isinstance(args[0], Simulated):
            return args[0].to(args[1] if len(args) > 1 else self.machine.gpu(kwargs.pop("device", None)), **kwargs)
        on_gpu = any(isinstance(x, Simulated) for x in args)
        self._refuse_generator(name, args, kwargs)
        if kwargs.get("pin_memory"):
            return func(*args, **{**kwargs, "pin_memory": False}).pin_memory()
        if not on_gpu and not any(isinstance(x, Simulated) for x in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        if name in ("__getitem__", "__setitem__"):
            args = _plain_indices(args)
        if name in _HAVE_POLICY and torch.is_autocast_enabled("cuda"):
            args, kwargs = _cast(name, args, kwargs)
            with torch.autocast("cuda", enabled=False):
                return self.__torch_function__(func, types, args, kwargs)
        if name == "scaled_dot_product_attention":
            return _attention(*args, **kwargs)
        return func(*args, **kwargs)

    def _numbered(self, value: Any) -> Any:
        """cuda as cuda:N: torch's C++ would ask the driver for the current one."""
        is_cuda = isinstance(value, torch.device) and value.type == "cuda"
        if not is_cuda and not (isinstance(value, str) and _CUDA.fullmatch(value)):
            return value
        self.machine.init()
        return self.machine.gpu(value)

    def _refuse_generator(self, name: str, args: Any, kwargs: Any) -> None:
        generator = kwargs.get("generator")
        if generator is None or (
            name in ("randperm", "DataLoader") and "device" not in kwargs and generator.device.type == "cpu"
        ):
            return
        on = next((x.device for x in args if isinstance(x, Tensor)), torch.device("cpu"))
        wanted = torch.device(kwargs.get("device") or on)
        if generator.device.type != wanted.type or (wanted.type == "cuda" and generator.device != wanted):
            raise RuntimeError(
                f"Expected a '{wanted}' device type for generator but found '{generator.device}' ({name}, at {line()})"
            )


def _plain_indices(args: list[Any]) -> list[Any]:
    """Lists and numbers as CPU tensors: C++ would make meta tensors of them."""
    places = args[1] if isinstance(args[1], tuple) else (args[1],)
    args[1] = tuple(torch.as_tensor(x) if isinstance(x, list | np.ndarray) else x for x in places)
    numbers = (bool, int, float)
    args[2:] = [torch.tensor(x, dtype=args[0].dtype) if isinstance(x, numbers) else x for x in args[2:]]
    return args


def _cast(name: str, args: Any, kwargs: Any) -> Any:
    """Arguments in the precision of CUDA's autocast."""
    if name in lists.BANNED:
        raise RuntimeError(f"{name} is unsafe to autocast: use binary_cross_entropy_with_logits (at {line()})")
    floats = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Simulated) and x.dtype in _FLOATS]
    if name in lists.LOWER:
        dtype = torch.get_autocast_dtype("cuda")
    else:
        is_wide = name in lists.FULL or any(x.dtype == torch.float32 for x in floats)
        dtype = torch.float32 if is_wide or not floats else floats[0].dtype

    def cast(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, Simulated) and value.dtype in _FLOATS else value

    return tree_map(cast, (args, kwargs))


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """By the kernel that a CPU takes, so that results are the same."""
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill_(~attn_mask, -torch.inf)
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found: Tensor = kernel(q, k, v, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]
    return found


class Generators(type):
    """Makes `torch.Generator("cuda")` one of a simulated GPU."""

    machine: Machine
    plain = torch.Generator

    def __call__(cls, device: Any = "cpu") -> torch.Generator:
        if torch.device(device).type != "cuda":
            return Generators.plain()
        Generators.machine.init()
        return Generator(Generators.machine.gpu(device))

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, Generators.plain)
