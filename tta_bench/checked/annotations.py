"""Annotated types with limits, which `validate` checks in files and in constructor arguments.

Separate from `validate`, so that rewording an error does not change the code hash of a dataset.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

# Larger whole numbers are not exact as floats, and no count here comes near.
Whole = Annotated[int, Meta(ge=0, le=2**53, title="a whole number of at least 0")]
Count = Annotated[int, Meta(ge=1, le=2**53, title="a whole number of at least 1")]
Share = Annotated[float, Meta(ge=0, le=1, title="a number from 0 to 1")]
Seconds = Annotated[float, Meta(ge=0, le=1e9, title="seconds")]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1, title="a whole number from 0 to 2^63 - 1")]  # torch's limit
Positive = Annotated[float, Meta(gt=0)]
Text = Annotated[str, Meta(min_length=1, title="text")]
# Names become parts of file names, so none starts with a dot and none is long.
Name = Annotated[
    str, Meta(pattern=r"^\w[\w.-]*\Z", max_length=100, title="a name of letters, digits, '-', '_' and '.'")
]

# Options of datasets
Severity = Annotated[int, Meta(ge=1, le=5, title="1 to 5", description="How strong the corruption is.")]
Folder = Annotated[Text, Meta(description="Below --data-root; its last part is the task's name.")]
Published = Annotated[Count, Meta(description="Number in the published dataset; any other is refused.")]
Partial = Annotated[bool, Meta(description="Accept a smaller set than published; its results are not reportable.")]
Interpolation = Literal["bicubic", "bilinear", "lanczos", "nearest"]
Resizing = Annotated[Interpolation | None, Meta(description="How images are resized; none: as in the model's config.")]
