"""torchvision's classifiers, with the mean, std, size and interpolation that their weights name.

    tv:resnet50                         torchvision's default weights
    tv:resnet50.IMAGENET1K_V1           these weights, from torch's cache or by download
    tv:resnet50.IMAGENET1K_V1=FILE      the same images, with the weights of a file

torchvision puts the start of a file's sha256 into its name; a file that differs is refused.
"""

from __future__ import annotations

import os
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError, did_you_mean, reason
from tta_bench.files import checksum
from tta_bench.models.packaged import Family, PackagedModel

if TYPE_CHECKING:
    from torch import nn

bibtex = """@misc{torchvision2016,
    title = {TorchVision: PyTorch's Computer Vision library},
    author = {{TorchVision maintainers and contributors}},
    howpublished = {https://github.com/pytorch/vision},
    year = {2016},
}"""
HASHED = re.compile(r"-([a-f0-9]{8,})\.")
TWO_HEADED = ("googlenet", "inception_v3")  # built otherwise when their weights are loaded


def family() -> Family:
    """The family of the entry point `tv`."""
    return Family(
        pick, "tv:NAME[.WEIGHTS][=FILE]", "a torchvision model, its weights from torch's cache or by download"
    )


def pick(rest: str) -> PackagedModel:
    """The model behind what follows `tv:`."""
    chosen, _, file = rest.partition("=")
    name, _, weights = chosen.partition(".")
    path = Path(file).expanduser() if file else None
    files = (path,) if path else _cached(name)
    return PackagedModel(build=partial(_trained, name, weights, path), files=files)


def _cached(name: str) -> tuple[Path, ...]:
    """Every file in torch's cache that may hold the weights, and a file that changes with torchvision's defaults.

    Only torchvision itself, which takes seconds to import, knows which of them it is.
    """
    found = sorted(_cache().glob(f"{name}*-*.pth"))
    package = find_spec("torchvision")
    return (*found, Path(package.origin).with_name("version.py")) if found and package and package.origin else ()


def _cache() -> Path:
    """torch's folder of downloaded weights, found without torch."""
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


def _trained(name: str, weights: str, path: Path | None) -> nn.Module:
    from torch import nn
    from torchvision import models

    from tta_bench.models.checkpoint import fill
    from tta_bench.models.weights import read_state, refuse_unreadable

    entry = _entry(name, weights, path)
    path = path or _downloaded(name, entry)
    refuse_unreadable(path)
    _refuse_damaged(path)
    state = read_state(path)
    network: nn.Module = models.get_model(name, weights=None)
    head = next((key for key, part in reversed([*network.named_modules()]) if isinstance(part, nn.Linear)), None)
    rows = state.get(f"{head}.weight")
    if rows is not None and len(rows) != len(entry.meta["categories"]):
        network = models.get_model(name, weights=None, num_classes=len(rows))
    fill(network, state, path, f"'tv:{name}'")
    _describe(network, entry, len(rows) if rows is not None else len(entry.meta["categories"]))
    return network


def _describe(network: Any, entry: Any, classes: int) -> None:
    """Say what images a network takes as timm's networks do, so that the harness reads both alike."""
    transforms = entry.transforms()
    network.num_classes = classes
    network.pretrained_cfg = {
        "mean": tuple(transforms.mean),
        "std": tuple(transforms.std),
        "input_size": (3, *transforms.crop_size * 2),
        "interpolation": transforms.interpolation.value,
    }


def _entry(name: str, weights: str, path: Path | None) -> Any:
    """torchvision's entry of these weights: their address, their transforms and their classes."""
    from torchvision import models

    known = models.list_models(module=models)
    if name not in known:
        near = did_you_mean(name, known).partition(" (known")[0]
        raise UserError(f"unknown model 'tv:{name}'{near}: expected a classifier of torchvision")
    if name in TWO_HEADED:
        raise UserError(f"tv:{name} has auxiliary classifiers: use a timm tag, as in inception_v3.tv_in1k")
    entries = {entry.name: entry for entry in models.get_model_weights(name)}
    if weights:
        if weights not in entries:
            raise UserError(f"unknown weights 'tv:{name}.{weights}'{did_you_mean(weights, entries)}")
        return entries[weights]
    if path is None:
        return models.get_model_weights(name).DEFAULT
    published = [entry for entry in entries.values() if path.name == Path(entry.url).name]
    if not published and len(entries) > 1:
        raise UserError(
            f"tv:{name}={path}: name the weights whose transforms this file uses ({', '.join(entries)}), "
            f"as in --model tv:{name}.{next(iter(entries))}={path}"
        )
    return (published or list(entries.values()))[0]


def _downloaded(name: str, entry: Any) -> Path:
    """The published file in torch's cache; downloaded if it is missing, and kept only if its checksum is right."""
    from torch import hub

    from tta_bench.models.weights import refuse_missing_network

    path = Path(hub.get_dir(), "checkpoints", Path(entry.url).name)
    if path.is_file():
        return path
    what = f"weights of 'tv:{name}.{entry.name}'"
    advice = f"download {entry.url} and use --model tv:{name}.{entry.name}=FILE, or put it into {path.parent}"
    refuse_missing_network(what, advice, entry.url)
    found = HASHED.search(path.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        hub.download_url_to_file(entry.url, str(path), found[1] if found else None, progress=False)
    except Exception as error:  # no such address, a broken transfer, another checksum, a full disk
        raise UserError(f"{what} cannot be loaded ({reason(error, 200)}): {advice}") from error
    return path


def _refuse_damaged(path: Path) -> None:
    """Refuse a file whose content is not what its name says."""
    found = HASHED.search(path.name)
    if found is None:
        return
    digest = checksum(path)
    if not digest.startswith(found[1]):
        raise UserError(
            f"{path}: its sha256 starts with {digest[: len(found[1])]}, its name says {found[1]}: "
            f"the file is damaged or renamed; delete it and download it again"
        )
