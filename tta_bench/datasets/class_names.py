"""Classes by name, for images that are not of ImageNet's classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from tta_bench.checked.annotations import Text
from tta_bench.errors import UserError, some

ClassNames = Annotated[
    tuple[Text, ...],
    Meta(description="Class names in the order of the model's logits; empty: the sorted names in the data."),
]


def refuse_other_classes(where: Path, names: Sequence[str], classes: Sequence[str]) -> None:
    """Refuse images of classes that the suite does not name: they have no label."""
    twice = sorted({name for name in classes if classes.count(name) > 1})
    if twice:
        raise UserError(f"data: classes: '{twice[0]}' is listed twice")
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise UserError(f"{where}: {some(unknown)} not among the suite's classes ({some(classes)})")
