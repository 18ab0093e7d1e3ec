"""Office-Home: four domains of 65 classes, and twelve transfers between them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.listing import complaint, is_file, is_folder, list_folders
from tta_bench.datasets.on_disk import OnDisk, in_folders, some_of
from tta_bench.errors import UserError, require_known, some

CLASSES = 65
DOMAINS = {"Art": 2427, "Clipart": 4365, "Product": 4439, "RealWorld": 4357}
FOLDERS = {domain: (domain,) for domain in DOMAINS} | {"RealWorld": ("Real World", "Real_World", "RealWorld")}
HOMES = ("OfficeHome", "Office-Home", "office-home", "OfficeHomeDataset_10072016")
PAIRS = {f"{source}-to-{target}": (source, target) for source in DOMAINS for target in DOMAINS if source != target}


class OfficeHome(OnDisk):
    """`<domain>/<class>/*.jpg` in one of HOMES below DATA_ROOT, or in DATA_ROOT itself.

    The task `Art-to-Clipart` scores the model trained on Art on all images of Clipart. Labels are ranks of the
    sorted class names. Images are preprocessed as ImageNet-R's; the paper gives no preprocessing.
    """

    layout = "OfficeHome/<Art|Clipart|Product|Real World>/<class>/*.jpg"
    bibtex = """@inproceedings{venkateswara2017officehome,
        title = {Deep Hashing Network for Unsupervised Domain Adaptation},
        author = {Venkateswara, Hemanth and Eusebio, Jose and Chakraborty, Shayok and Panchanathan, Sethuraman},
        booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
        year = {2017},
    }"""
    source_by_task = True

    @property
    def num_classes(self) -> int:
        return len(self.classes()) if self.allow_partial else CLASSES

    def tasks(self) -> Sequence[str]:
        return tuple(PAIRS)

    def downloads(self, task: str | None = None) -> Sequence[str]:
        return ("office-home",)

    def published(self, task: str) -> tuple[int, int]:
        return CLASSES, DOMAINS[PAIRS[task][1]]

    def open(self, task: str) -> FolderImages:
        return self.domain(PAIRS[task][1])

    def places(self, task: str) -> Sequence[Path]:
        return self._domain_places(PAIRS[task][1])

    def source_places(self, task: str) -> Sequence[Path]:
        return self._domain_places(PAIRS[task][0])

    def _domain_places(self, domain: str) -> list[Path]:
        folder = self._folder(domain)
        return [] if folder is None else [folder]

    def seems_there(self, task: str) -> bool:
        return self._folder(PAIRS[task][1]) is not None

    def source_images(self, task: str | None = None) -> FolderImages:
        """2,000 images of the domain that the task's model was trained on."""
        if task is None:
            raise UserError("office-home: every task has its own source images: name the task")
        source = PAIRS[task][0]
        return some_of(self.domain(source), "office-home", source, "source")

    def model_for(self, task: str) -> str:
        source = PAIRS[task][0]
        places = model_places(self.root, source)
        for place in places:
            if is_file(place):
                return str(place)
        raise UserError(
            f"no source model for {source} in {' or '.join(map(str, places))}: "
            f"make it with `tta-bench train-source office-home --domain {source}`"
        )

    def domain(self, name: str) -> FolderImages:
        """All images of a domain; training reads these, too."""
        require_known([name], DOMAINS, "office-home: unknown domain")
        home, folder = self._home(), self._folder(name)
        if folder is None:
            raise UserError(f"{home / FOLDERS[name][0]} is missing: expected {self.layout}")
        found, classes = self.listed(folder), self.classes()
        self.refuse_partial(folder, complaint(found, (CLASSES, DOMAINS[name]), names=classes))
        rank = {known: i for i, known in enumerate(classes)}
        # The folder has several spellings, the ids have one.
        return in_folders(folder, found, rank, self.clean_view(), prefix=f"{name}/")

    def classes(self) -> list[str]:
        """The sorted class names of all existing domains: one order for every domain."""
        folders = [folder for folder in map(self._folder, DOMAINS) if folder]
        listed = {folder: set(list_folders(folder)) for folder in folders}
        names = sorted(set().union(*listed.values()))
        if len(names) > CLASSES:
            odd = [
                f"{f.name}/{n}" for f in folders for n in sorted(listed[f]) if sum(n in s for s in listed.values()) == 1
            ]
            raise UserError(f"{self._home()}: {len(names)} classes, expected {CLASSES}: check {some(odd)}")
        return names

    def _home(self) -> Path:
        return self.find(HOMES, lambda home: any(is_folder(home / f) for names in FOLDERS.values() for f in names))

    def _folder(self, domain: str) -> Path | None:
        home = self._home()
        return next((home / name for name in FOLDERS[domain] if is_folder(home / name)), None)


def model_places(root: Path | None, domain: str) -> tuple[Path, ...]:
    """Possible paths of a domain's source model: beside the data, then in the results folder here."""
    name = f"office-home-{domain}.safetensors"
    here = Path("results", "models", name)
    return (here,) if root is None else (root / "models" / name, here)
