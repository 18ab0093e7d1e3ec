"""The 5,000 images of ImageNet-C that RobustBench lists: most continual papers use only these.

The list is RobustBench's `imagenet_test_image_ids.txt` (MIT licence), byte for byte. It is a random sample: 997 of the
1,000 classes, 1 to 12 images each.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import cast

from tta_bench.datasets.files import FolderImages, TarImages
from tta_bench.datasets.imagenet_c import ImageNetC
from tta_bench.datasets.on_disk import at
from tta_bench.errors import UserError, some


@lru_cache(maxsize=1)
def listed_ids() -> tuple[str, ...]:
    """`<wnid>/<file>` of each image, in the list's order."""
    return tuple((resources.files("tta_bench.datasets") / "imagenet_c_5k.txt").read_text().split())


class ImageNetC5k(ImageNetC):
    """The images of ImageNet-C that the list names, in its order; needs the whole tree, or `allow_partial`."""

    def open(self, task: str) -> FolderImages | TarImages:
        import numpy as np

        whole = cast(FolderImages | TarImages, super().open(task))
        places = {image_id.split("/", 2)[2]: i for i, image_id in enumerate(whole.ids)}
        missing = [image_id for image_id in listed_ids() if image_id not in places]
        if missing and (not self.allow_partial or len(missing) == len(listed_ids())):
            raise UserError(f"{task}: lacks {len(missing):,} of {len(listed_ids()):,} listed images: {some(missing)}")
        kept = np.array([places[image_id] for image_id in listed_ids() if image_id in places], np.int64)
        if isinstance(whole, FolderImages):
            return at(whole, kept)
        return replace(
            whole,
            ids=[whole.ids[i] for i in kept],
            labels=whole.labels[kept],
            offsets=whole.offsets[kept],
            sizes=whole.sizes[kept],
        )
