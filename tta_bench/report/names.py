"""Short column names for tables, and what they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from tta_bench.notes import Note, info

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
    "imagenet-r": "ImageNet-R",
    "imagenet-a": "ImageNet-A",
    "visda-2021": "VisDA-2021",
}


def short(task: str) -> str:
    """A task's column name: a short one if there is one; transfers by their initials."""
    source, to, target = task.partition("-to-")
    return f"{source[0]}→{target[0]}" if source and to and target else SHORT.get(task, task)


def columns(tasks: Sequence[str]) -> tuple[str, ...]:
    """Short names for all tasks; two that would look the same keep their long ones."""
    names = [short(task) for task in tasks]
    return tuple(name if names.count(name) == 1 else task for name, task in zip(names, tasks, strict=True))


def legend(tasks: Sequence[str]) -> list[Note]:
    """One line that spells out the shortened names; other capitals alone do not count as shortened."""
    pairs = zip(columns(tasks), tasks, strict=True)
    spelled = [f"{name} = {task}" for name, task in pairs if name.lower() != task.lower()]
    return [info(f"{', '.join(spelled)}.")] if spelled else []
