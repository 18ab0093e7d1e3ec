"""Anybody's timm models of the Hugging Face hub: `hf_hub:owner/name`, `hf_hub:owner/name@revision`, `local-dir:FOLDER`.

A repository has a config.json, which names the architecture, its classes and the size, mean and std of its images, and
weights beside it. Cached files are used without asking the hub. Weights are read as weights only: no code in them runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from tta_bench.checked import validate
from tta_bench.checked.annotations import Count, Positive, Text
from tta_bench.checked.parse import from_json
from tta_bench.errors import UserError, reason
from tta_bench.models.names import hub_folder
from tta_bench.models.packaged import Family, PackagedModel

if TYPE_CHECKING:
    from torch import nn

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # in order of preference, as timm's
ADVICE = "check the name and the network, fill the Hugging Face cache (HF_HOME), or use --model local-dir:FOLDER"

Find = Callable[..., Path | None]  # the first of these files that a repository has, on this machine if possible


@dataclass(frozen=True)
class Config:
    """What a hub's config says about a model."""

    architecture: Text
    num_classes: Count
    mean: Annotated[tuple[float, ...], Meta(min_length=3, max_length=3, title="3 numbers")]
    std: Annotated[tuple[Positive, ...], Meta(min_length=3, max_length=3, title="3 numbers above 0")]
    input_size: Annotated[tuple[Count, ...], Meta(min_length=3, max_length=3, title="channels, height and width")]
    interpolation: Text = "bicubic"  # timm's default
    model_args: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        channels, height, width = self.input_size
        if channels != 3 or height != width:
            raise ValueError(f"input_size: expected 3 channels and a square, got {list(self.input_size)}")


def hub() -> Family:
    """The family of the entry point `hf_hub`."""
    return Family(_from_hub, "hf_hub:OWNER/NAME", "a timm model of the Hugging Face hub, from its cache or by download")


def local_dir() -> Family:
    """The family of the entry point `local-dir`."""
    return Family(_from_folder, "local-dir:FOLDER", f"a copy of such a repository: {CONFIG} and {WEIGHTS[0]} or .bin")


def _from_hub(name: str) -> PackagedModel:
    repository, _, revision = name.partition("@")
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise UserError(f"'hf_hub:{name}': expected hf_hub:OWNER/NAME, as in hf_hub:timm/vit_base_patch16_224.dino")
    find = partial(_cached_or_downloaded, repository, revision or None)
    return PackagedModel(build=partial(trained, f"hf_hub:{name}", find), files=_cached(repository, revision or "main"))


def _from_folder(name: str) -> PackagedModel:
    folder = Path(name).expanduser()
    files = tuple(file for file in map(folder.joinpath, (CONFIG, *WEIGHTS)) if file.is_file())
    return PackagedModel(build=partial(trained, f"local-dir:{name}", partial(_in_folder, folder)), files=files)


def _in_folder(folder: Path, *files: str) -> Path | None:
    if not folder.is_dir():
        raise UserError(f"model folder {folder} does not exist")
    return next((folder / file for file in files if (folder / file).is_file()), None)


def _cached(repository: str, revision: str) -> tuple[Path, ...]:
    """The files of a repository in the cache, found without the hub's client; none if one is missing."""
    home = hub_folder(repository)
    try:
        commit = (home / "refs" / revision).read_text().strip()
    except OSError:
        commit = revision  # a commit is its own name
    found = [file for file in (home / "snapshots" / commit / name for name in (CONFIG, *WEIGHTS)) if file.is_file()]
    return tuple(found) if len(found) > 1 else ()


def _cached_or_downloaded(repository: str, revision: str | None, *files: str) -> Path | None:
    from tta_bench.models.weights import cached_file, refuse_missing_network

    if found := cached_file(repository, files, revision):
        return found
    what = f"{' or '.join(files)} of 'hf_hub:{repository}{f'@{revision}' if revision else ''}'"
    refuse_missing_network(what, ADVICE)
    return next((found for file in files if (found := _downloaded(repository, revision, file, what))), None)


def _downloaded(repository: str, revision: str | None, file: str, what: str) -> Path | None:
    """A file of the hub, now in the cache; None if the repository has none of this name."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(repository, file, revision=revision))
    except Exception as error:  # no such repository, no access, a broken transfer: the client raises many kinds
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):  # not offline
            return None
        raise UserError(f"{what} cannot be loaded ({reason(error, 200)}): {ADVICE}") from error


def trained(name: str, find: Find) -> nn.Module:
    """The network that a repository describes, with its weights; UserError if the two do not fit."""
    from tta_bench.models.checkpoint import fill
    from tta_bench.models.weights import read_state

    path = find(CONFIG)
    if path is None:
        raise UserError(f"'{name}' has no {CONFIG}, so its architecture is unknown")
    config = read_config(path)
    network = _create(config, path)
    weights = find(*WEIGHTS)
    if weights is None:
        raise UserError(f"'{name}' has no weights: expected {' or '.join(WEIGHTS)} beside its {CONFIG}")
    fill(network, read_state(weights), weights, f"'{config.architecture}' of {CONFIG}")
    return network


def read_config(path: Path) -> Config:
    """What a config.json of timm says; one of another library is refused by name."""
    try:
        content = from_json(path.read_bytes(), str(path))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not isinstance(content, Mapping):
        raise UserError(f"{path}: expected keys and values")
    if "architecture" not in content and ("architectures" in content or "model_type" in content):
        kind = content.get("architectures") or content["model_type"]
        kind = kind[0] if isinstance(kind, list) and kind else kind
        raise UserError(f"{path}: describes '{kind}' of the Transformers library: expected a model saved by timm")
    images = content.get("pretrained_cfg", content)  # older configs have no such level
    if not isinstance(images, Mapping):
        raise UserError(f"{path}: pretrained_cfg: expected keys and values")
    wanted = {**images, **{key: value for key, value in content.items() if key != "pretrained_cfg"}}
    known = {key: wanted[key] for key in Config.__dataclass_fields__ if key in wanted}
    return validate.read(Config, known, str(path))


def _create(config: Config, path: Path) -> nn.Module:
    """The architecture of a config, its weights not trained."""
    import timm

    from tta_bench.models.weights import create, refuse_unknown

    architecture = config.architecture.removeprefix("timm/")
    refuse_unknown(architecture, f"{path}: ")
    # A model's own arguments only: create_model itself could be made to load another file.
    reserved = config.model_args.keys() & inspect.signature(timm.create_model).parameters.keys()
    if reserved:
        raise UserError(f"{path}: model_args: '{min(reserved)}' is not an argument of an architecture")
    about = {
        "mean": config.mean,
        "std": config.std,
        "input_size": config.input_size,
        "interpolation": config.interpolation,
        "num_classes": config.num_classes,
    }
    network = create(architecture, num_classes=config.num_classes, pretrained_cfg_overlay=about, **config.model_args)
    size = getattr(getattr(network, "patch_embed", None), "img_size", None)
    if size is not None and tuple(size) != config.input_size[1:]:
        raise UserError(
            f"{path}: input_size is {config.input_size[1]} pixels, but model_args make '{architecture}' take {size[0]}"
        )
    return network
