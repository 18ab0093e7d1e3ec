"""Measures what shortcuts in the code save, beside the plain way that each replaces.

python -m benchmarks.shortcuts floats|listing|init

The two ways take turns in one process, so that a busy machine slows them alike. Figures are medians of CPU time and,
where waiting is the point, of wall time. A comment that quotes a figure names its command.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import torch

CPU_TIME, WALL_TIME = time.process_time, time.perf_counter


def main() -> None:
    measures = {"floats": floats, "listing": listing, "init": init}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shortcut", choices=measures)
    torch.set_num_threads(1)
    measures[parser.parse_args().shortcut]()


def floats() -> None:
    """64 images of 224 px from bytes to floats."""
    from tta_bench.data.loading import _floats

    batch = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (64, 3, 224, 224), np.uint8))
    assert torch.equal(_floats(batch), batch.float().div_(255))
    compare({"numpy": lambda: _floats(batch), "torch": lambda: batch.float().div_(255)}, rounds=50)


def listing() -> None:
    """1,000 class folders of 50 images each: from memory, then with 1 ms of delay per folder as on a network disk."""
    from tta_bench.datasets import listing as code

    def in_turn() -> dict[str, list[str]]:
        return {name: code._list_images(f"{root}/{name}") for name in code.list_folders(root)}

    def one_by_one() -> dict[str, list[str]]:
        names = code.list_folders(root)
        with ThreadPoolExecutor(code.AT_ONCE) as pool:
            return dict(zip(names, pool.map(lambda name: code._list_images(f"{root}/{name}"), names), strict=True))

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(1000):
            (root / f"n{number:08}").mkdir()
            for image in range(50):
                (root / f"n{number:08}" / f"ILSVRC2012_val_{image:08}.JPEG").touch()
        assert code.list_classes(root) == one_by_one() == in_turn()
        ways = {"in shares": lambda: code.list_classes(root), "one by one": one_by_one, "in turn": in_turn}
        print("no delay, CPU time")
        compare(ways, rounds=15)
        scan = os.scandir

        def delayed(path: str) -> object:
            time.sleep(0.001)
            return scan(path)

        with mock.patch("os.scandir", delayed):
            print("1 ms per folder, wall time")
            compare(ways, rounds=5, clock=WALL_TIME)


def init() -> None:
    """Building a ViT-B whose weights a file then replaces: with the random initialisation, and on the meta device."""
    import timm

    name = "vit_base_patch16_224"
    state = timm.create_model(name).state_dict()

    def plain() -> torch.nn.Module:
        network: torch.nn.Module = timm.create_model(name)
        network.load_state_dict(state)
        return network

    def on_meta() -> torch.nn.Module:
        with torch.device("meta"):
            network: torch.nn.Module = timm.create_model(name)
        network.load_state_dict(state, assign=True)
        return network

    assert not any(tensor.is_meta for tensor in [*on_meta().parameters(), *on_meta().buffers()])
    compare({"meta device": on_meta, "initialised": plain}, rounds=5)


def compare(ways: Mapping[str, Callable[[], object]], *, rounds: int, clock: Callable[[], float] = CPU_TIME) -> None:
    """Print the median time of each way, and how many times longer the last takes than the first."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"  {name:<12} {1000 * median:9.1f} ms")
    first, *_, last = medians.values()
    print(f"  ratio {last / first:.2f}")


if __name__ == "__main__":
    main()
