"""A plug-in that misbehaves: Source, with one bad deed in every step. Installed by hostile.py; never shipped."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tta_bench import Method

KEPT: list[Any] = []


class Hostile(Method):
    """Source, with a bad deed in every step."""

    paper = "nobody, 2026"
    passes = "1 forward"

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64, deed: str = "none") -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        self.model.eval()
        self.deed = deed

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Any:
        instead = DEEDS[self.deed](self, batch)
        return instead if isinstance(instead, Tensor) and instead is not batch else self.model(batch)


class Sly(Hostile):
    """Does its work in a property, outside the timer."""

    @property
    def resets(self) -> int:  # type: ignore[override]
        return 0

    @resets.setter
    def resets(self, value: int) -> None: ...


class Lazy(Tensor):
    """Computes when it is scored."""


def hook(method: Any, batch: Tensor) -> None:
    nn.modules.module.register_module_forward_hook(lambda module, args, out: torch.zeros_like(out))


def patch_softmax(method: Any, batch: Tensor) -> None:
    torch.Tensor.softmax = lambda self, dim: torch.zeros_like(self) + 1 / self.shape[1]  # type: ignore


def steal_labels(method: Any, batch: Tensor) -> Tensor | None:
    """Look for an array that could be the stream's labels, in all frames and in everything alive."""
    frame: Any = sys._getframe()
    places = []
    while frame is not None:
        places += list(frame.f_locals.values())
        frame = frame.f_back
    for thing in [*places, *gc.get_objects()]:
        labels = getattr(thing, "labels", None) if not isinstance(thing, type) else None
        if isinstance(labels, np.ndarray) and labels.dtype.kind == "i" and len(labels) > len(batch):
            order = getattr(thing, "_order", None) or [np.arange(len(batch))]
            return F.one_hot(torch.from_numpy(labels[order[0][: len(batch)]]), method.num_classes).float()
    return None


def run_a_copy(method: Any, batch: Tensor) -> None:
    if not hasattr(method, "copy"):
        method.copy = copy.deepcopy(method.model)
    for _ in range(9):
        method.copy(batch)


def call_blocks(method: Any, batch: Tensor) -> None:
    tokens = torch.rand(len(batch), 17, method.model.embed_dim)
    for _ in range(9):
        method.model.blocks(tokens)


def other_network(method: Any, batch: Tensor) -> None:
    if not hasattr(method, "other"):
        method.other = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(20)])
    method.other(torch.rand(len(batch), 1024))


def thread(method: Any, batch: Tensor) -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def fork(method: Any, batch: Tensor) -> None:
    if not KEPT:
        KEPT.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]))


def leave_files(method: Any, batch: Tensor) -> None:
    KEPT.append(open(os.devnull))  # noqa: SIM115, PTH123


def leak(method: Any, batch: Tensor) -> None:
    KEPT.append(torch.ones(50_000_000))


def stop(method: Any, batch: Tensor) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def spin(method: Any, batch: Tensor) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


def close_everything(method: Any, batch: Tensor) -> None:
    os.closerange(3, 1000)


def write_nonsense(method: Any, batch: Tensor) -> None:
    for fd in range(3, 30):
        try:
            os.write(fd, b"\0\0\0\x08nonsense")
        except OSError:
            continue


def raise_a_bias(method: Any, batch: Tensor) -> None:
    method.model.head.bias.data.add_(1)


def patch_the_clock(method: Any, batch: Tensor) -> None:
    time.perf_counter = lambda: 0.0
    time.monotonic = lambda: 0.0


def recurse(method: Any, batch: Tensor) -> None:
    recurse(method, batch)


def raise_novel(method: Any, batch: Tensor) -> None:
    raise RuntimeError("a line\n" * 10_000 + "\x1b[31mred\x1b[0m")


def raise_this(error: BaseException) -> Any:
    def deed(method: Any, batch: Tensor) -> None:
        raise error

    return deed


DEEDS: dict[str, Any] = {
    "none": lambda m, b: None,
    # leftovers: what would change other methods' results in one process
    "global-hook": hook,
    "default-dtype": lambda m, b: torch.set_default_dtype(torch.float64),
    "more-threads": lambda m, b: torch.set_num_threads(torch.get_num_threads() + 3),
    "torch-seed": lambda m, b: torch.manual_seed(7),
    "numpy-seed": lambda m, b: np.random.seed(7),
    "python-seed": lambda m, b: random.seed(7),
    "matmul-precision": lambda m, b: torch.set_float32_matmul_precision("medium"),
    "no-mkldnn": lambda m, b: torch.backends.mkldnn.set_flags(False),
    "denormals": lambda m, b: torch.set_flush_denormal(True),
    "deterministic": lambda m, b: torch.use_deterministic_algorithms(True),
    "default-device": lambda m, b: torch.set_default_device("meta"),
    "ignore-hangup": lambda m, b: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    "model-hook": lambda m, b: m.model.head.register_forward_hook(lambda *call: None),
    "ignore-ctrl-c": lambda m, b: signal.signal(signal.SIGINT, signal.default_int_handler),
    "working-directory": lambda m, b: os.chdir("/"),
    "environment": lambda m, b: os.environ.update(OMP_NUM_THREADS="7"),
    "patched-softmax": patch_softmax,
    "patched-clock": patch_the_clock,
    "leak": leak,
    "open-files": leave_files,
    "thread": thread,
    "child-process": fork,
    "input-batch": lambda m, b: b.mul_(1.0),
    "weights": raise_a_bias,
    # ends and hangs
    "exit": lambda m, b: os._exit(0),
    "segfault": lambda m, b: ctypes.string_at(0),
    "abort": lambda m, b: os.abort(),
    "kill": lambda m, b: os.kill(os.getpid(), signal.SIGKILL),
    "sigstop": stop,
    "hang": spin,
    "close-files": close_everything,
    "nonsense": write_nonsense,
    "interrupt": raise_this(KeyboardInterrupt()),
    "system-exit": raise_this(SystemExit(0)),
    "recursion": recurse,
    "novel": raise_novel,
    # dodges
    "labels": steal_labels,
    "copied-model": run_a_copy,
    "blocks": call_blocks,
    "other-network": other_network,
    "lazy": lambda m, b: m.model(b).as_subclass(Lazy),
    "nan": lambda m, b: m.model(b) * float("nan"),
    "shape": lambda m, b: m.model(b)[:, :3],
}
