"""The table of published files: where they are, how to check them, and where the loaders expect them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta

from tta_bench.checked import parse, validate
from tta_bench.checked.annotations import Count, Positive, Text
from tta_bench.errors import require_known

FILE = "published.yaml"
Md5 = Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")]
Sha256 = Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")]


@dataclass(frozen=True)
class PublishedFile:
    """One file of a set."""

    address: Text
    brings: Text  # the path below the data root that it becomes
    bytes: Count | None = None
    gigabytes: Positive | None = None  # roughly, where no exact size is published
    md5: Md5 = ""
    sha256: Sha256 = ""
    source: str = ""  # who publishes the checksum
    same_as: tuple[str, ...] = ()  # folders beside it that hold the same images, unpacked

    @property
    def name(self) -> str:
        return PurePosixPath(self.address).name

    @property
    def is_unpacked(self) -> bool:
        """False for a file that the loader reads without unpacking."""
        return PurePosixPath(self.brings).name != self.name

    @property
    def checksum(self) -> tuple[str, str] | None:
        """Algorithm and digest, if one is published."""
        if self.sha256:
            return "sha256", self.sha256
        return ("md5", self.md5) if self.md5 else None

    @property
    def expected_bytes(self) -> int | None:
        """The size, or roughly."""
        return self.bytes or (round(self.gigabytes * 1e9) if self.gigabytes else None)


@dataclass(frozen=True)
class PublishedSet:
    """What `tta-bench download NAME` fetches: files, its parts, or a page to visit."""

    about: Text
    page: Text
    layout: Text
    licence: str = ""
    files: tuple[PublishedFile, ...] = ()
    parts: tuple[str, ...] = ()
    by_hand: str = ""  # what to do with the file, if no program can fetch it
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if sum(map(bool, (self.files, self.parts, self.by_hand))) != 1:
            raise ValueError("expected one of files, parts and by_hand")


@cache
def published() -> dict[str, PublishedSet]:
    """Every set by its name."""
    text = (resources.files("tta_bench.download") / FILE).read_text(encoding="utf-8")
    content = parse.from_yaml(text, FILE)
    return {
        name: validate.read(PublishedSet, {**entry, "name": name}, f"{FILE}: {name}") for name, entry in content.items()
    }


def find(names: Iterable[str]) -> list[PublishedSet]:
    """The sets of these names, each once, groups replaced by their parts; UserError for an unknown name."""
    names = list(names)
    require_known(names, published(), "unknown dataset")
    parts = dict.fromkeys(part for name in names for part in published()[name].parts or (name,))
    return [published()[part] for part in parts]


def sets_for(path: str) -> tuple[str, ...]:
    """The names of the sets that provide this path below the data root, or something inside it."""
    wanted = PurePosixPath(path)
    return tuple(
        name
        for name, entry in published().items()
        if any(PurePosixPath(file.brings).is_relative_to(wanted) for file in entry.files)
    )
