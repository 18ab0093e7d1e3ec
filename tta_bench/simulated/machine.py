"""A machine with simulated GPUs: its driver, and the calls of `torch.cuda` that go to it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import torch

from tta_bench.simulated.memory import Allocator, Rooms
from tta_bench.simulated.streams import DeviceContext, Event, Seen, Stream, StreamContext, merge

NAME = "simulated GPU"
TOTAL = 80 << 30
DRIVER_FILE = "/dev/zero"  # in place of /dev/nvidia0, which this machine does not have
_LIBRARIES = tuple(str(Path(spec.origin or "").parent) + os.sep for spec in map(find_spec, ("torch", "timm")) if spec)
_HERE = str(Path(__file__).parent) + os.sep


def line() -> str:
    """The innermost line that is running and is neither torch's, timm's nor the simulation's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((*_LIBRARIES, _HERE, "<")) and "contextlib" not in file:
            return f"{'/'.join(Path(file).parts[-2:])}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


class Generator(torch.Generator):
    """A generator of random numbers on a simulated GPU."""

    def __new__(cls, gpu: torch.device) -> Generator:
        return super().__new__(cls)

    def __init__(self, gpu: torch.device) -> None:
        self.gpu = gpu

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.gpu


class Machine:
    """Simulated GPUs. `waits` counts what makes the host wait for one, by kind and line."""

    def __init__(self, count: int, *, is_unordered: bool = False) -> None:
        self.count, self.is_unordered = count, is_unordered
        self.is_initialised = False
        self.waits: Counter[tuple[str, str]] = Counter()
        self.operations: Counter[str] = Counter()
        self.host: Seen = {}
        self.every_stream: list[Stream] = []
        self.rooms = Rooms()
        self.allocators = [Allocator() for _ in range(count)]
        self.current = torch.device("cuda", 0)
        self._visible: list[int] = []
        self._undo = ExitStack()
        for cls in (Stream, Event, DeviceContext):
            cls.machine = self
        self.generators = tuple(Generator(torch.device("cuda", i)).manual_seed(0) for i in range(count))
        self._streams: dict[int, Stream] = {}  # of GPUs that were used: not all may be visible

    @property
    def visible(self) -> list[int]:
        """The numbers that the driver has for the visible GPUs; CUDA reads the variable once."""
        if self._visible:
            return self._visible
        asked = os.environ.get("CUDA_VISIBLE_DEVICES")
        found: list[int] = []
        for text in range(self.count) if asked is None else asked.split(","):
            if not str(text).strip().isdecimal() or int(text) >= self.count:
                break  # CUDA ignores a GPU that it does not know, and all after it
            found.append(int(text))
        return found

    def init(self) -> None:
        """CUDA's first use: the driver opens its device files, and sets a variable as it did up to torch 2.8."""
        if self.is_initialised:
            return
        if not self.visible:
            raise RuntimeError("No CUDA GPUs are available")
        self.is_initialised, self._visible = True, self.visible
        self._undo.callback(os.close, os.open(DRIVER_FILE, os.O_RDONLY))
        if "CUDA_MODULE_LOADING" not in os.environ:
            os.environ["CUDA_MODULE_LOADING"] = "LAZY"
            self._undo.callback(os.environ.pop, "CUDA_MODULE_LOADING", None)

    def close(self) -> None:
        self._undo.close()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One operation of torch."""
        raise RuntimeError(f"{func}: simulated GPUs are off (at {line()})")

    def gpu(self, device: Any = None) -> torch.device:
        """A GPU by its name, number or object; the current one without any."""
        index = device if isinstance(device, int) else None if device is None else torch.device(device).index
        index = self.current.index if index is None else index
        if not 0 <= index < max(1, len(self.visible)):
            raise RuntimeError(f"CUDA error: invalid device ordinal (GPU {index} of {len(self.visible)}, at {line()})")
        return torch.device("cuda", index)

    def allocator(self, device: Any = None) -> Allocator:
        return self.allocators[self.gpu(device).index]

    def stream(self, device: Any = None) -> Stream:
        gpu = self.gpu(device)
        if gpu.index not in self._streams:
            self._streams[gpu.index] = Stream(gpu)
        return self._streams[gpu.index]

    def enter_stream(self, stream: Stream) -> tuple[torch.device, Stream]:
        """Make a stream and its GPU the current ones; returns what was current."""
        outer = self.current, self.stream(stream.device)
        self.current, self._streams[stream.device.index] = stream.device, stream
        return outer

    def leave_stream(self, outer: tuple[torch.device, Stream]) -> None:
        self.current = outer[0]
        self._streams[outer[1].device.index] = outer[1]

    def wait(self, what: str) -> None:
        """The host waits here."""
        self.init()
        self.waits[what, line()] += 1

    def calls(self) -> dict[str, Any]:
        """What `torch.cuda` does here, by name."""
        return {
            **{"_lazy_init": self.init, "init": self.init, "is_initialized": lambda: self.is_initialised},
            **{"is_available": lambda: bool(self.visible), "device_count": lambda: len(self.visible)},
            **{"current_device": self._index, "set_device": self._choose, "device": DeviceContext},
            **{"synchronize": self._synchronise, "is_current_stream_capturing": lambda: False},
            **{"get_device_name": lambda device=None: NAME, "get_device_properties": self._properties},
            **{"get_device_capability": lambda device=None: (9, 0), "_is_in_bad_fork": lambda: False},
            **{"is_bf16_supported": lambda including_emulation=True: True, "_device_count_nvml": lambda: self.count},
            **{"Stream": Stream, "Event": Event, "stream": StreamContext, "current_stream": self.stream},
            **{"default_stream": self.stream, "set_stream": self.enter_stream},
            **{"reset_peak_memory_stats": self._reset_peak, "empty_cache": self._empty_caches},
            **{"memory_allocated": lambda device=None: self.allocator(device).allocated},
            **{"max_memory_allocated": lambda device=None: self.allocator(device).peak},
            **{"memory_reserved": lambda device=None: self.allocator(device).reserved},
            **{"mem_get_info": lambda device=None: (TOTAL - self.allocator(device).reserved, TOTAL)},
            **{"default_generators": self.generators, "manual_seed": self._seed, "manual_seed_all": self._seed_all},
            **{"get_rng_state": self._rng_state, "set_rng_state": self._set_rng_state},
            **{"get_rng_state_all": lambda: [self._rng_state(i) for i in range(len(self.visible))]},
            **{"set_rng_state_all": self._set_rng_states},
        }

    def _index(self) -> int:
        self.init()
        return int(self.current.index)

    def _choose(self, device: Any) -> None:
        self.init()
        self.current = self.gpu(device)

    def _properties(self, device: Any = None) -> Any:
        self.init()
        number = self.visible[self.gpu(device).index]
        facts = {"total_memory": TOTAL, "multi_processor_count": 1, "uuid": f"GPU-simulated-{number}"}
        return SimpleNamespace(name=NAME, major=9, minor=0, pci_bus_id=number, **facts)

    def _synchronise(self, device: Any = None) -> None:
        self.wait("synchronize")
        gpu = self.gpu(device)
        for stream in self.every_stream:
            if stream.device == gpu:
                merge(self.host, stream.now())

    def _reset_peak(self, device: Any = None) -> None:
        if device is None or torch.device(device).index is None:
            self.init()  # torch asks for the current GPU
        if not self.is_initialised:
            raise RuntimeError(f"Invalid device argument {self.gpu(device).index}: did you call init?")
        self.allocator(device).reset_peak()

    def _empty_caches(self) -> None:
        if self.is_initialised:
            for allocator in self.allocators:
                allocator.empty_cache()

    def _seed(self, seed: int) -> None:
        self.generators[self.current.index].manual_seed(seed)

    def _seed_all(self, seed: int) -> None:
        for generator in self.generators:
            generator.manual_seed(seed)

    def _rng_state(self, device: Any = None) -> torch.Tensor:
        self.init()
        return self.generators[self.gpu(device).index].get_state()

    def _set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        self.init()
        self.generators[self.gpu(device).index].set_state(state)

    def _set_rng_states(self, states: list[torch.Tensor]) -> None:
        for index, state in enumerate(states):
            self._set_rng_state(state, index)
