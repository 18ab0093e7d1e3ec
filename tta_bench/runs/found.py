"""What a cell's identity depends on beside its request, written down once.

`PARTS` says of each field of `Found` how binding finds it, and which stamps show without torch that it is still the
same. Binding makes `Found` from it, the cache of keys its stamps: whoever adds a field says here how a change of it is
noticed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tta_bench
from tta_bench import gpus, registry
from tta_bench.datasets import Dataset, kinds, open_dataset
from tta_bench.errors import UserError
from tta_bench.identity.code import code_hash, harness_hash
from tta_bench.identity.contents import content_hash
from tta_bench.models import names
from tta_bench.records.cell import Found
from tta_bench.records.spec import CellSpec
from tta_bench.runs.site import Site
from tta_bench.runs.spec import BY_TASK
from tta_bench.streams.scenarios import Material, protocol

if TYPE_CHECKING:
    from tta_bench.isolation.adapter import Setup
    from tta_bench.models.source import SourceModel

PACKAGES = ("numpy", "scipy", "scikit-learn", "pillow")  # their versions affect embedded and decoded images


@dataclass(frozen=True)
class Request:
    """A spec on a site, as far as it is known without torch."""

    spec: CellSpec
    site: Site
    needs_source: bool  # whether its method learns from source images

    @cached_property
    def dataset(self) -> Dataset:
        tasks = protocol(self.spec).tasks_of(self.spec.tasks)
        return _dataset(json.dumps(self.spec.data), tasks, self.site.data_root)

    @property
    def material(self) -> Material:
        """What a scenario makes a stream of."""
        spec = self.spec
        return Material(self.dataset, spec.data, spec.suite, spec.seed, spec.tasks, self.site.data_root)


@dataclass(frozen=True)
class Bound(Request):
    """The same once weights are loaded and images are listed."""

    setup: Setup
    model: SourceModel
    sized: Dataset  # with images of the model's input size
    files: Sequence[Path]  # that the method's settings name
    stream: str  # digests: of the ids in their order,
    images: str  # of labels and a sample's pixels,
    source: str  # of the source images; empty if the method needs none


Stamp = Callable[[Request], str | None]  # None: only binding can tell whether something changed


@dataclass(frozen=True)
class Part:
    """A field of `Found`."""

    find: Callable[[Bound], Any]
    stamps: tuple[Stamp, ...]


def model_name(spec: CellSpec, task: str, dataset: Dataset) -> str:
    """The name of a task's source model."""
    name = dataset.model_for(task) if spec.model == BY_TASK else spec.model
    if name is None or name == "none":
        raise UserError(f"suite '{spec.suite}' names no model: choose one with --model")
    return name


def weights(at: Request) -> str | None:
    return names.stamp(model_name(at.spec, at.spec.tasks[0], at.dataset))


def image_files(at: Request) -> str | None:
    return _path_stamps(protocol(at.spec).places(at.material))


def source_files(at: Request) -> str | None:
    return _path_stamps([at.dataset.source_places(at.spec.tasks[0])]) if at.needs_source else ""


def method_code(at: Request) -> str:
    return registry.installed().code(at.spec.method)


def data_code(at: Request) -> str:
    return code_hash(at.dataset.code, kinds().packages())


def harness_code(at: Request) -> str:
    return f"{tta_bench.__version__}+{harness_hash()}"


def scenario_code(at: Request) -> str:
    """A hash of the code that makes this scenario's streams and no others'."""
    return _joined(*map(code_hash, protocol(at.spec).code))


def packages(at: Request) -> str:
    return _versions()


def device(at: Request) -> str:
    """Changes when another kind of device would be picked, as far as is known without torch."""
    return f"{at.site.device} {sys.platform} {gpus.visible() != []} {os.environ.get(gpus.SIMULATED, '')}".rstrip()


def _device_kind(bound: Bound) -> str:
    from tta_bench.measure import environment  # imports torch

    return environment.kind(bound.setup.device)


# Files that a method's settings name, and a sample of the images, are also stamped one by one (key_cache.py).
PARTS = {
    "settings": Part(lambda b: b.setup.settings, (method_code,)),
    "method_code": Part(lambda b: _joined(method_code(b), content_hash(b.files)), (method_code,)),
    "data": Part(lambda b: _describe(b), (data_code, image_files, weights)),
    "data_code": Part(data_code, (data_code,)),
    "stream": Part(lambda b: b.stream, (image_files, data_code, harness_code, scenario_code)),
    "source": Part(lambda b: b.source, (source_files, data_code, packages)),
    "weights": Part(lambda b: b.model.weights_hash, (weights,)),
    "mean": Part(lambda b: b.model.mean, (weights,)),
    "std": Part(lambda b: b.model.std, (weights,)),
    "device": Part(_device_kind, (device,)),
    "harness": Part(
        lambda b: _joined(harness_code(b), b.model.code, scenario_code(b)), (harness_code, weights, scenario_code)
    ),
    "images": Part(lambda b: b.images, (image_files, data_code, scenario_code, packages)),
}


def find(bound: Bound) -> Found:
    """What binding found."""
    return Found(**{name: part.find(bound) for name, part in PARTS.items()})


def stamps(request: Request) -> dict[str, str] | None:
    """A stamp for each thing that a cell's key depends on; None if one of them cannot be checked cheaply."""
    used = {stamp.__name__: stamp for part in PARTS.values() for stamp in part.stamps}
    found = {name: stamp(request) for name, stamp in used.items()}
    return None if None in found.values() else {name: str(value) for name, value in found.items()}


def _joined(*codes: str) -> str:
    return "+".join(filter(None, codes))


def _describe(bound: Bound) -> dict[str, Any]:
    """How images are preprocessed and were made."""
    dataset, makes_images = bound.sized, protocol(bound.spec).makes_images
    return {
        **({"transform": dataset.transform.describe()} if dataset.transform else {}),
        **({"made_by": maker} if not makes_images and (maker := dataset.made_by()) else {}),
    }


@lru_cache(maxsize=16)
def _dataset(data: str, tasks: tuple[str, ...], root: Path | None) -> Dataset:
    return open_dataset(json.loads(data), tasks, root)


def _path_stamps(found: Sequence[Sequence[Path] | None]) -> str | None:
    if None in found:
        return None
    return "; ".join(_path_stamp(os.fspath(path)) for places in found for path in places or ())


@lru_cache(maxsize=1024)
def _path_stamp(path: str) -> str:
    """The stamp of a file (size and time) or folder (its time and its subfolders' times); checks no image."""
    seen = os.stat(path)  # noqa: PTH116
    newest = count = 0
    if os.path.isdir(path):  # noqa: PTH112
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir():
                    count += 1
                    newest = max(newest, entry.stat().st_mtime_ns)
    return f"{path} {seen.st_size} {seen.st_mtime_ns} {count} {newest}"


@lru_cache(maxsize=1)
def _versions() -> str:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
