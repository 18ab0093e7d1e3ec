"""Names of source models, resolved without torch: their files, and whether these have changed."""

from __future__ import annotations

import os
from pathlib import Path

from tta_bench.models import packaged

SUFFIXES = (".safetensors", ".pth", ".pt", ".npz", ".bin")
FOLDER = "local-dir:"  # before the path of a folder, as timm writes it


def model_files(name: str) -> tuple[Path, ...]:
    """The files of `TAG=FILE`, of your own checkpoint or of a packaged model; none for a tag of the hub."""
    if packaged.owns(name):
        return packaged.describe(name).files
    _, equals, file = name.partition("=")
    return (Path(file if equals else name).expanduser(),) if equals or name.endswith(SUFFIXES) else ()


def findable(name: str) -> str:
    """The same name with the absolute path of its file, so that a process in another folder finds it."""
    if name.startswith(FOLDER):
        return f"{FOLDER}{Path(name.removeprefix(FOLDER)).expanduser().absolute()}"
    tag, equals, file = name.partition("=")
    if equals:
        return f"{tag}={Path(file).expanduser().absolute()}"
    return str(Path(name).expanduser().absolute()) if name.endswith(SUFFIXES) else name


def without_path(name: str) -> str:
    """The name of a packaged model in records: where its file is changes no result."""
    if name.startswith(FOLDER):
        return f"{FOLDER}{Path(name.removeprefix(FOLDER)).name}"
    return name.partition("=")[0]


def stamp(name: str) -> str | None:
    """A text that changes when a model's weights may have changed; None if that is known only after loading them."""
    files, is_packaged = model_files(name), packaged.owns(name)
    if is_packaged and not files:
        return None
    try:
        if not files:
            return f"hub {(hub_folder(f'timm/{name}') / 'refs' / 'main').read_text().strip()}"
        seen = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    except OSError:
        return None
    return "; ".join([*seen, *([packaged.code(name)] if is_packaged else [])])


def hub_folder(repository: str) -> Path:
    """A repository's folder in the cache of the Hugging Face client, from the client's environment variables."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    return cache / f"models--{repository.replace('/', '--')}"
