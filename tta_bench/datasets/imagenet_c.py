"""ImageNet-C: one corruption per task, as folders or as tars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tta_bench.data.families import CORRUPTIONS, HELD_OUT
from tta_bench.datasets.corruption_tree import CorruptionTree
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.imagenet import CLASSES, ImageNetKind, ranks, refuse_unknown_classes, wnids
from tta_bench.datasets.listing import Classes, complaint, is_file
from tta_bench.datasets.on_disk import MADE
from tta_bench.errors import UserError, some

PARTS = {  # the files of the published download
    "noise.tar": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur.tar": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather.tar": ("snow", "frost", "fog", "brightness"),
    "digital.tar": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    "extra.tar": HELD_OUT,
}
ALL = (*CORRUPTIONS, *HELD_OUT)


class ImageNetC(CorruptionTree, ImageNetKind):
    """`<corruption>/<severity>/<wnid>/*.JPEG` in DATA_ROOT/ImageNet-C, or in DATA_ROOT itself; or its tars."""

    layout = "ImageNet-C/<corruption>/<severity>/<wnid>/*.JPEG (or ImageNet-C/<corruption>.tar)"
    bibtex = """@inproceedings{hendrycks2019corruptions,
        title = {Benchmarking Neural Network Robustness to Common Corruptions and Perturbations},
        author = {Hendrycks, Dan and Dietterich, Thomas},
        booktitle = {International Conference on Learning Representations},
        year = {2019},
    }
    @article{russakovsky2015imagenet,
        title = {ImageNet Large Scale Visual Recognition Challenge},
        author = {Russakovsky, Olga and Deng, Jia and Su, Hao and Krause, Jonathan and Satheesh, Sanjeev and Ma, Sean
            and Huang, Zhiheng and Karpathy, Andrej and Khosla, Aditya and Bernstein, Michael and Berg, Alexander C.
            and Fei-Fei, Li},
        journal = {International Journal of Computer Vision},
        year = {2015},
    }"""
    num_classes = CLASSES
    homes = ("ImageNet-C", "imagenet-c")
    parts: ClassVar[Mapping[str, Sequence[str]]] = PARTS
    corruptions: ClassVar[tuple[str, ...]] = ALL

    def published(self, task: str) -> tuple[int, int]:
        return CLASSES, 50_000

    def downloads(self, task: str | None = None) -> Sequence[str]:
        if task is None:
            return ("imagenet-c",)
        return [f"imagenet-c-{Path(part).stem}" for part, corruptions in PARTS.items() if task in corruptions]

    def hint(self, task: str | None = None) -> str:
        part = "" if task else ", or `tta-bench download --suite NAME` for the parts that a suite needs"
        return super().hint(task) + part

    def made_by(self) -> str:
        home = self._home()
        return "make-corrupted" if is_file(home / MADE) else ""

    def originals(self, task: str) -> FolderImages:
        """The validation images of the same names, preprocessed as the corrupted ones were before corruption."""
        folder = self.clean_folder("no originals")
        corrupted = self.open(task)
        ids = [image_id.split("/", 2)[2] for image_id in corrupted.ids]  # <wnid>/<file>
        clean = {f"{wnid}/{file}" for wnid, files in self.listed(folder).items() for file in files}
        missing = [image_id for image_id in ids if image_id not in clean]
        if missing:
            raise UserError(f"no originals: {folder}: {len(missing):,} of {len(ids):,} are missing: {some(missing)}")
        return FolderImages(folder, ids, corrupted.labels, self.clean_view())

    def clean_images(self, task: str) -> FolderImages:
        """All validation images, without any of ImageNet-C."""
        return self.validation_images("no clean images")

    def ranks(self, where: Path, task: str, found: Classes) -> Mapping[str, int]:
        refuse_unknown_classes(where, found)
        self.refuse_partial(where, complaint(found, self.published(task), names=wnids(), even=True))
        return ranks()


class ImageNet3dcc(ImageNetC):
    """ImageNet-3DCC: twelve corruptions that use the scene's depth, in the same layout."""

    layout = "ImageNet-3DCC/<corruption>/<severity>/<wnid>/*.JPEG"
    bibtex = r"""@inproceedings{kar2022threedcc,
        title = {3D Common Corruptions and Data Augmentation},
        author = {Kar, O{\u{g}}uzhan Fatih and Yeo, Teresa and Atanov, Andrei and Zamir, Amir},
        booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition},
        year = {2022},
    }"""
    homes = ("ImageNet-3DCC", "imagenet_3dcc")
    parts: ClassVar[Mapping[str, Sequence[str]]] = {}
    corruptions = (
        *("near_focus", "far_focus", "fog_3d", "flash", "color_quant", "low_light"),
        *("xy_motion_blur", "z_motion_blur", "iso_noise", "bit_error", "h265_abr", "h265_crf"),
    )

    def downloads(self, task: str | None = None) -> Sequence[str]:
        return ("imagenet-3dcc",)
