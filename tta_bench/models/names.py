"""Names of source models, resolved without torch: their files, and whether these have changed."""

from __future__ import annotations

import os
from pathlib import Path

from tta_bench.models import packaged

SUFFIXES = (".safetensors", ".pth", ".pt", ".npz")


def model_files(name: str) -> tuple[Path, ...]:
    """The files of `TAG=FILE`, of your own checkpoint or of a packaged model; none for a tag of the hub."""
    _, equals, file = name.partition("=")
    if equals or name.endswith(SUFFIXES):
        return (Path(file if equals else name).expanduser(),)
    return packaged.describe(name).files if name in packaged.installed().claims else ()


def findable(name: str) -> str:
    """The same name with the absolute path of its file, so that a process in another folder finds it."""
    tag, equals, file = name.partition("=")
    if equals:
        return f"{tag}={Path(file).expanduser().absolute()}"
    return str(Path(name).expanduser().absolute()) if name.endswith(SUFFIXES) else name


def stamp(name: str) -> str | None:
    """A text that changes when a model's weights may have changed; None if only loading them can tell."""
    files, is_packaged = model_files(name), name in packaged.installed().claims
    if is_packaged and not files:
        return None
    try:
        if not files:
            return f"hub {(_hub_cache() / f'models--timm--{name}' / 'refs' / 'main').read_text().strip()}"
        seen = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    except OSError:
        return None
    return "; ".join([*seen, *([packaged.code(name)] if is_packaged else [])])


def _hub_cache() -> Path:
    """The download folder of the Hugging Face client, from the same environment variables as the client's."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
