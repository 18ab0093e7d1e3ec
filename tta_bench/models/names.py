"""Names of source models, read without torch: which file is behind one, and whether it has changed."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

SUFFIXES = (".safetensors", ".pth", ".pt", ".npz")


def model_file(name: str) -> Path | None:
    """The file behind `TAG=FILE`, a checkpoint of one's own or an embedded model; None for a tag of the hub."""
    _, equals, file = name.partition("=")
    if equals or name.endswith(SUFFIXES):
        return Path(file if equals else name).expanduser()
    embedded = Path(str(resources.files("tta_bench.models.checkpoints"))) / f"{name.replace('-', '_')}.safetensors"
    return embedded if embedded.is_file() else None


def findable(name: str) -> str:
    """The same name with the whole path of its file, so that a process in another folder finds it."""
    tag, equals, file = name.partition("=")
    if equals:
        return f"{tag}={Path(file).expanduser().absolute()}"
    return str(Path(name).expanduser().absolute()) if name.endswith(SUFFIXES) else name


def stamp(name: str) -> str | None:
    """A text that changes when the weights behind a name may have; None where only loading them can tell."""
    file = model_file(name)
    try:
        if file is not None:
            seen = file.stat()
            return f"{file} {seen.st_size} {seen.st_mtime_ns}"
        return f"hub {(_hub_cache() / f'models--timm--{name}' / 'refs' / 'main').read_text().strip()}"
    except OSError:
        return None


def _hub_cache() -> Path:
    """Where the Hugging Face client keeps what it downloaded; asked of the environment, as the client does."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
