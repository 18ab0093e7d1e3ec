"""timm networks with weights from the Hugging Face hub or from a file.

A file may be .safetensors, .pth or .pt (read as weights only, so none of its code runs), or an .npz of the AugReg
release, which timm's own loader turns into a ViT.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tta_bench.errors import UserError, did_you_mean
from tta_bench.models.checkpoint import misfit

SUFFIXES = (".safetensors", ".pth", ".pt", ".npz")


def from_hub(name: str) -> nn.Module:
    """A network with the weights of its tag, from the local cache or the hub."""
    import timm

    refuse_unknown(name)
    try:
        with _offline_if_unreachable():
            network: nn.Module = timm.create_model(name, pretrained=True)
    except Exception as error:  # offline, no such tag, a damaged cache: timm and its hub raise many kinds
        line = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"weights of '{name}' cannot be loaded ({type(error).__name__}: {line}): check the tag and the network; "
            f"or use --model {name}=FILE with a {', '.join(SUFFIXES)} file; or fill the Hugging Face cache (HF_HOME)"
        ) from error
    return network


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
            raise UserError(f"model file {path} does not exist")
        with path.open("rb"):
            pass
    except OSError as error:
        raise UserError(f"model file {path} cannot be read: {error.strerror}") from error


def refuse_unknown(name: str) -> None:
    """Refuse a name that timm does not know, and suggest the closest one."""
    import timm

    base = name.partition(".")[0]
    if not timm.is_model(base):
        near = did_you_mean(base, timm.list_models()).partition(" (known")[0]
        raise UserError(f"unknown model '{name}'{near}: expected digits-vit, a timm name, NAME=FILE or a .safetensors")


def _from_state(name: str, path: Path) -> nn.Module:
    state = read_state(path)
    network = _create(name)
    head = state.get(f"{_head_name(network)}.weight")
    if head is not None and len(head) != network.num_classes:
        network = _create(name, num_classes=len(head))
    wrong = misfit(network, state)
    if wrong:
        raise UserError(f"{path}: weights do not fit '{name}': {wrong}")
    network.load_state_dict(state)
    return network


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors or .pth file, without the wrappers that training scripts add."""
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
        raise UserError(
            f"{path}: holds more than weights, and its code is not run: save the model's state_dict() instead"
        ) from error
    except Exception as error:  # torch raises many kinds on broken files
        raise UserError(f"{path}: not a readable torch file ({' '.join(str(error).split())[:200]})") from error
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path}: expected tensors by name, alone or under 'state_dict' or 'model'")
    return {str(key).removeprefix("module."): value for key, value in content.items()}


def _from_npz(name: str, path: Path) -> nn.Module:
    classes, blocks = _npz_shape(path)
    network = _create(name, num_classes=classes)
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
        line = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: weights do not fit '{name}' ({type(error).__name__}: {line})") from error
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
        raise UserError(f"{path}: not a readable .npz ({' '.join(str(error).split())[:200]})") from error
    raise UserError(f"{path}: not an AugReg .npz with a head (expected head/bias and Transformer/encoderblock_0/…)")


class _SkipInit(TorchFunctionMode):
    """Skips the random initialisation, which a file's weights replace: most of the time to build a ViT-B."""

    draws: tuple[Any, ...] = (Tensor.uniform_, Tensor.normal_, Tensor.erfinv_)
    draws += (nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_)  # called before the tensor's own
    scales: tuple[Any, ...] = (Tensor.mul_, Tensor.add_, Tensor.clamp_)  # how timm scales its draws for a parameter

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in self.draws or (func in self.scales and isinstance(args[0], nn.Parameter)):
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def _create(name: str, **changes: Any) -> nn.Module:
    """A network with uninitialised weights, to be filled from a file."""
    import timm

    try:
        with _SkipInit():
            network: nn.Module = timm.create_model(name, pretrained=False, **changes)
    except (RuntimeError, TypeError) as error:  # a tag that does not exist, a model without classes
        raise UserError(f"model '{name}' cannot be built: {' '.join(str(error).split())[:200]}") from error
    return network


def _head_name(network: nn.Module) -> str:
    config: Any = getattr(network, "pretrained_cfg", {})
    return str(config.get("classifier", "head"))


@contextmanager
def _offline_if_unreachable() -> Iterator[None]:
    """Without a network, read the hub's cache at once: its client would retry for a minute first."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    host = urlsplit(constants.ENDPOINT).hostname
    through_proxy = any(name.lower() in ("https_proxy", "http_proxy", "all_proxy") for name in os.environ)
    if not through_proxy:
        try:
            socket.getaddrinfo(host, 443)
        except OSError:
            constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
