"""timm networks with weights from the Hugging Face hub or from a file.

A file may be .safetensors; .pth, .pt or .bin (read as weights only, so none of its code runs); or an .npz of the AugReg
release, which timm's own loader turns into a ViT.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn

from tta_bench.errors import UserError, did_you_mean, reason
from tta_bench.models import packaged
from tta_bench.models.checkpoint import fill, misfit
from tta_bench.models.names import SUFFIXES
from tta_bench.models.packaged import Family

bibtex = """@misc{wightman2019timm,
    title = {PyTorch Image Models},
    author = {Wightman, Ross},
    howpublished = {https://github.com/huggingface/pytorch-image-models},
    year = {2019},
}"""


def from_hub(name: str) -> nn.Module:
    """A network with the weights of its tag, from the local cache or the hub.

    Cached weights are loaded without asking the hub: it is not reached from many clusters, where its client tries for
    54 s before it gives up, and new uploads must not change a run.
    """
    import timm

    refuse_unknown(name)
    cached = _cached_weights(name)
    if cached is None:
        refuse_missing_network(f"weights of '{name}'", _advice(name))
    try:
        overlay = {"file": str(cached)} if cached else None
        network: nn.Module = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    except Exception as error:  # no such tag, a damaged cache: timm and its hub raise many kinds
        raise UserError(f"weights of '{name}' cannot be loaded ({reason(error, 200)}): {_advice(name)}") from error
    return network


def _cached_weights(name: str) -> Path | None:
    """The file of a tag's weights in the Hugging Face cache, as timm would choose it."""
    config = _config(name)
    repository, _, revision = str(getattr(config, "hf_hub_id", None) or "").partition("@")
    if not repository:
        return None
    file = config.hf_hub_filename or "pytorch_model.bin"
    return cached_file(repository, (file.replace("pytorch_model.bin", "model.safetensors"), file), revision or None)


def cached_file(repository: str, files: Sequence[str], revision: str | None) -> Path | None:
    """The first of these files of a repository that the Hugging Face cache has."""
    from huggingface_hub import try_to_load_from_cache

    found = (try_to_load_from_cache(repository, file, revision=revision) for file in files)
    return next((Path(path) for path in found if isinstance(path, str)), None)


def refuse_missing_network(what: str, advice: str, server: str | None = None) -> None:
    """Say at once that the hub (or another server) cannot be reached, instead of after ten attempts by its client."""
    from huggingface_hub import constants

    if any(variable.lower() in ("https_proxy", "http_proxy", "all_proxy") for variable in os.environ):
        return  # names may be resolved by the proxy alone
    try:
        socket.getaddrinfo(urlsplit(server or constants.ENDPOINT).hostname, 443)
    except OSError as error:
        raise UserError(f"{what} cannot be loaded (not in the cache, and no network: {error}): {advice}") from error


def _advice(name: str) -> str:
    return (
        f"check the tag and the network; or use --model {name}=FILE with a {', '.join(SUFFIXES)} file; "
        f"or fill the Hugging Face cache (HF_HOME)"
    )


def from_file(name: str, path: Path) -> nn.Module:
    """A timm network with all of the file's weights, and as many classes as these have."""
    refuse_unknown(name)
    refuse_unreadable(path)
    if path.suffix not in SUFFIXES:
        raise UserError(f"model file {path}: expected {', '.join(SUFFIXES)}")
    return _from_npz(name, path) if path.suffix == ".npz" else _from_state(name, path)


def refuse_unreadable(path: Path) -> None:
    """Refuse a model file that cannot be opened, with the reason: safetensors reports unreadable files as missing."""
    try:
        if path.is_dir():
            raise UserError(f"model file {path} is a folder, expected {', '.join(SUFFIXES)}")
        if not path.is_file():
            raise UserError(f"model file {path} does not exist: name its place by --model, or make it by train-source")
        with path.open("rb"):
            pass
    except OSError as error:
        raise UserError(f"model file {path} cannot be read: {error.strerror}") from error


def refuse_unknown(name: str, where: str = "") -> None:
    """Refuse a name that timm does not know, and suggest the closest one; `where` says who asks for it."""
    import timm

    base, prefix = name.partition(".")[0], name.partition(":")[0]
    if prefix != name and "/" not in prefix and "=" not in prefix:
        families = [known for known in packaged.installed().names() if isinstance(packaged.entry(known), Family)]
        raise UserError(
            f"{where}unknown model '{name}': no models start with '{prefix}:'{did_you_mean(prefix, families)}"
        )
    if not timm.is_model(base):
        near = did_you_mean(base, timm.list_models()).partition(" (known")[0]
        expected = "timm's name of a model" if where else "digits-vit, a timm name, NAME=FILE or a .safetensors"
        raise UserError(f"{where}unknown model '{name}'{near}: expected {expected}")


def _from_state(name: str, path: Path) -> nn.Module:
    state = read_state(path)
    head = state.get(f"{getattr(_config(name), 'classifier', None) or 'head'}.weight")
    network = create(name) if head is None else create(name, num_classes=len(head))
    wrong = misfit(network, state)
    if wrong and "size mismatch" in wrong:  # made with other arguments than the tag has
        raise UserError(
            f"{path}: weights do not fit '{name}': {wrong}. For another input size or other arguments, name them by "
            "--model-args, as in img_size=98, or put a config.json beside the weights: --model local-dir:FOLDER "
            "(docs/models.md)"
        )
    fill(network, state, path, f"'{name}'")
    return network


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors or torch file, without the wrappers that training scripts add."""
    content: Any
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return dict(load_file(path))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: not a readable safetensors file ({error})") from error
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if _is_web_page(path):
            raise UserError(
                f"{path}: is a web page, not weights: download the file itself (Google Drive first asks to confirm)"
            ) from error
        raise UserError(
            f"{path}: holds more than weights, and its code is not run: save the model's state_dict() instead"
        ) from error
    except Exception as error:  # torch raises many kinds on broken files
        raise UserError(f"{path}: not a readable torch file ({reason(error, 200)})") from error
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path}: expected tensors by name, alone or under 'state_dict' or 'model'")
    return {str(key).removeprefix("module."): value for key, value in content.items()}


def _is_web_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip().lower().startswith((b"<!doctype", b"<html"))


def _from_npz(name: str, path: Path) -> nn.Module:
    classes, blocks = _npz_shape(path)
    network = create(name, num_classes=classes)
    load: Any = getattr(network, "load_pretrained", None)
    depth = len(getattr(network, "blocks", ()))
    if load is None or depth != blocks:
        raise UserError(f"{path}: is a ViT with {blocks} blocks, but '{name}' has {depth}")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(torch.nan)  # marks what the file does not fill
    try:
        load(str(path))
    except Exception as error:  # another width or patch size: timm does not check, so anything may fail
        raise UserError(f"{path}: weights do not fit '{name}' ({reason(error, 200)})") from error
    unfilled = [key for key, parameter in network.named_parameters() if parameter.isnan().any()]
    if unfilled:
        raise UserError(f"{path}: has no weights for {', '.join(unfilled[:3])} of '{name}'")
    return network


def _npz_shape(path: Path) -> tuple[int, int]:
    """Classes and blocks of a ViT in an .npz, which timm's loader does not compare with the model's."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as content:
            heads = [key for key in content.files if key.endswith("head/bias")]
            blocks = {found[1] for key in content.files if (found := re.search(r"encoderblock_(\d+)/", key))}
            if heads and blocks:
                return content[heads[0]].shape[-1], len(blocks)
    except Exception as error:  # no zip, a cut off zip, pickled content
        raise UserError(f"{path}: not a readable .npz ({reason(error, 200)})") from error
    raise UserError(f"{path}: not an AugReg .npz with a head (expected head/bias and Transformer/encoderblock_0/…)")


def create(name: str, **changes: Any) -> nn.Module:
    """A network of timm's name, its weights not trained."""
    import timm

    try:
        network: nn.Module = timm.create_model(name, pretrained=False, **changes)
    except (RuntimeError, TypeError) as error:  # a tag that does not exist, a model without classes
        raise UserError(f"model '{name}' cannot be built: {reason(error, 200)}") from error
    return network


def _config(name: str) -> Any:
    """What timm knows about a name's weights; some of its releases refuse an unknown tag here, some later."""
    import timm

    try:
        return timm.get_pretrained_cfg(name)
    except RuntimeError as error:
        raise UserError(f"weights of '{name}' cannot be loaded ({error}): {_advice(name)}") from error
