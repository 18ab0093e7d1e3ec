"""The options of a run that are part of every request for a cell, and so of the identity of its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
