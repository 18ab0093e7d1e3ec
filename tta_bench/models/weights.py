"""Networks by their timm name, with weights from the Hugging Face hub or from a file.

A file may be .safetensors, .pth or .pt (read as weights only, so no code in it is run), or an .npz of the AugReg
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
        with _no_waiting_for_a_missing_network():
            network: nn.Module = timm.create_model(name, pretrained=True)
    except Exception as error:  # offline, no such tag, a damaged cache: timm and its hub raise many kinds
        line = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"weights of '{name}' cannot be loaded ({type(error).__name__}: {line}): check the tag and the network; "
            f"or say --model {name}=FILE with a {', '.join(SUFFIXES)} file; or fill the Hugging Face cache (HF_HOME)"
        ) from error
    return network


def from_file(name: str, path: Path) -> nn.Module:
    """A network of timm's name, with as many classes as the file's weights and with these weights, all of them."""
    refuse_unknown(name)
    refuse_unreadable(path)
    if path.suffix not in SUFFIXES:
        raise UserError(f"model file {path}: expected {', '.join(SUFFIXES)}")
    return _from_npz(name, path) if path.suffix == ".npz" else _from_state(name, path)


def refuse_unreadable(path: Path) -> None:
    """A model file that cannot be opened, and why: of one that may not be read safetensors says that there is none."""
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
    """A name that timm does not know, with the nearest that it does."""
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
    """The tensors of a .safetensors or .pth file, out of the wrappings that training scripts put around them."""
    content: Any
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return dict(load_file(path))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: no readable safetensors file ({error})") from error
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path}: is no file of weights alone, and nothing else is run: save the model's state_dict() instead"
        ) from error
    except Exception as error:  # torch raises many kinds on broken files
        raise UserError(f"{path}: no readable torch file ({' '.join(str(error).split())[:200]})") from error
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
        raise UserError(f"{path}: has the {blocks} blocks of a ViT, but '{name}' has {depth}")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(torch.nan)  # what the file does not fill will show
    try:
        load(str(path))
    except Exception as error:  # another width or patch: timm leaves it to whatever fails first
        line = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: weights do not fit '{name}' ({type(error).__name__}: {line})") from error
    unfilled = [key for key, parameter in network.named_parameters() if parameter.isnan().any()]
    if unfilled:
        raise UserError(f"{path}: has no weights for {', '.join(unfilled[:3])} of '{name}'")
    return network


def _npz_shape(path: Path) -> tuple[int, int]:
    """Classes and blocks of a ViT in an .npz, which timm's loader would not compare with the model's."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as content:
            heads = [key for key in content.files if key.endswith("head/bias")]
            blocks = {found[1] for key in content.files if (found := re.search(r"encoderblock_(\d+)/", key))}
            if heads and blocks:
                return content[heads[0]].shape[-1], len(blocks)
    except Exception as error:  # no zip, a cut off zip, pickled content
        raise UserError(f"{path}: no readable .npz ({' '.join(str(error).split())[:200]})") from error
    raise UserError(f"{path}: is no AugReg .npz with a head (expected head/bias and Transformer/encoderblock_0/…)")


class _Undrawn(TorchFunctionMode):
    """Leaves out the random numbers of a new network, which a file's weights replace: most of a ViT-B's building."""

    draws: tuple[Any, ...] = (Tensor.uniform_, Tensor.normal_, Tensor.erfinv_)
    draws += (nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_)  # these come before the tensor's own
    scales: tuple[Any, ...] = (Tensor.mul_, Tensor.add_, Tensor.clamp_)  # what timm does to its draws for a parameter

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in self.draws or (func in self.scales and isinstance(args[0], nn.Parameter)):
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def _create(name: str, **changes: Any) -> nn.Module:
    """A network whose weights are to be filled: they are whatever was in memory."""
    import timm

    try:
        with _Undrawn():
            network: nn.Module = timm.create_model(name, pretrained=False, **changes)
    except (RuntimeError, TypeError) as error:  # a tag that does not exist, a model without classes
        raise UserError(f"model '{name}' cannot be built: {' '.join(str(error).split())[:200]}") from error
    return network


def _head_name(network: nn.Module) -> str:
    config: Any = getattr(network, "pretrained_cfg", {})
    return str(config.get("classifier", "head"))


@contextmanager
def _no_waiting_for_a_missing_network() -> Iterator[None]:
    """Without a network the hub's client tries for a minute before it looks into its cache; here it looks at once."""
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
