"""The options of a run that are part of every request for a cell, and so of the identity of its result."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from tta_bench.checked import readers as read
from tta_bench.checked.annotations import Count
from tta_bench.checked.options import option


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run may ask of all its cells."""

    limit: Count | None = option(
        None, "use only N images per task; results are marked as not reportable", read.positive
    )
    amp: Literal["bf16"] | None = option(None, "adapt in mixed precision; changes results slightly", choices=("bf16",))
    compile: bool = option(False, "compile the model: slower start, faster batches")
    tf32: bool = option(False, "GPUs: multiply in TF32 (10 bits of precision): faster, changes results slightly")
    deterministic: bool = option(False, "GPUs: the same bits in every run, by slower kernels")

    @property
    def mode(self) -> dict[str, Any]:
        """The options that are not at their defaults, apart from the limit; another mode is another row of a table."""
        own = {f.name: (getattr(self, f.name), f.default) for f in fields(Asked) if f.name != "limit"}
        return {name: value for name, (value, default) in own.items() if value != default}

    @property
    def newer(self) -> dict[str, Any]:
        """The part of the mode that was no option yet when keys got their form: only then is it in a key."""
        return {name: value for name, value in self.mode.items() if name not in ("amp", "compile")}
