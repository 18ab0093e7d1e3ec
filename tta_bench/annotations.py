"""Annotated types with limits, which `validate` checks in files and in constructor arguments.

Separate from `validate`, so that rewording an error does not change the code hash of a dataset.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

Whole = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1, title="a whole number from 0 to 2^63 - 1")]  # torch's limit
Positive = Annotated[float, Meta(gt=0)]
Text = Annotated[str, Meta(min_length=1, title="text")]
Name = Annotated[str, Meta(pattern=r"^[\w.-]+\Z", title="a name of letters, digits, '-', '_' and '.'")]

# Options of datasets
Severity = Annotated[int, Meta(ge=1, le=5, title="1 to 5", description="How strong the corruption is.")]
Folder = Annotated[Text, Meta(description="Below --data-root; its last part is the task's name.")]
Published = Annotated[Count, Meta(description="Number in the published dataset; any other is refused.")]
Partial = Annotated[bool, Meta(description="Accept a smaller set than published; its results are not reportable.")]
Interpolation = Literal["bicubic", "bilinear", "lanczos", "nearest"]
Resizing = Annotated[Interpolation | None, Meta(description="How images are resized; none: as in the model's config.")]
