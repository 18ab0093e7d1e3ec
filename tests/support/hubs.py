"""Repositories of the Hugging Face hub with a small timm ViT, on disk and in the client's cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

CONFIG: dict[str, Any] = {
    "architecture": "test_vit",
    "num_classes": 12,
    "num_features": 64,
    "pretrained_cfg": {
        "mean": [0.4, 0.5, 0.6],
        "std": [0.1, 0.2, 0.3],
        "input_size": [3, 160, 160],
        "interpolation": "bilinear",
        "num_classes": 12,
        "license": "mit",
    },
}
OLD = {"architecture": "test_vit", "num_features": 64, **CONFIG["pretrained_cfg"]}  # before timm had two levels
COMMIT = "a" * 40


def fill(folder: Path, network: nn.Module, *, file: str = "model.safetensors", config: Any = CONFIG) -> Path:
    """A repository in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    if file.endswith(".safetensors"):
        save_file(network.state_dict(), folder / file)
    elif file:
        torch.save(network.state_dict(), folder / file)
    return folder


def cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An own cache for the client and for us."""
    from huggingface_hub import constants

    monkeypatch.setenv("HF_HUB_CACHE", str(home))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home))


def cached(home: Path, network: nn.Module, *, name: str = "lab/vit", revision: str = "main", **changes: Any) -> Path:
    """The folder of a repository's files in the cache at `home`, as the client lays it out."""
    place = home / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True, exist_ok=True)
    (place / "refs" / revision).write_text(COMMIT)
    return fill(place / "snapshots" / COMMIT, network, **changes)


def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is resolved and no connection made; the hub's client is not even asked."""
    import socket

    def refuse(*words: Any, **more: Any) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    for name in ("https_proxy", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Code:
    """Pickled, it runs code in whoever unpickles it: it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))
