"""Short names for columns, as the DPAL paper prints them."""

from __future__ import annotations

SHORT = {
    "gaussian_noise": "gaus",
    "shot_noise": "shot",
    "impulse_noise": "impul",
    "defocus_blur": "defcs",
    "glass_blur": "gls",
    "motion_blur": "mtn",
    "zoom_blur": "zm",
    "snow": "snw",
    "frost": "frst",
    "fog": "fg",
    "brightness": "brt",
    "contrast": "cnt",
    "elastic_transform": "els",
    "pixelate": "px",
    "jpeg_compression": "jpg",
    "speckle_noise": "spckl",
    "gaussian_blur": "gblur",
    "spatter": "sptr",
    "saturate": "satur",
}


def short(task: str) -> str:
    return SHORT.get(task, task)
