"""Names of the corruption families, separate from the code that draws them: data on disk needs only names."""

from __future__ import annotations

CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
)
"""The fifteen that are scored, in the published order."""

HELD_OUT = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The four reserved for choosing hyper-parameters."""
