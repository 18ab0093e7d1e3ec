"""RobustBench's CIFAR models with the published checkpoint files: `robustbench:Standard=FILE`.

RobustBench keeps the files on Google Drive, which needs a browser, so they are given by path. How many classes a model
has (10 or 100) is read from its weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tta_bench.errors import UserError, did_you_mean
from tta_bench.models import published
from tta_bench.models.packaged import Family, PackagedModel

if TYPE_CHECKING:
    from torch import Tensor, nn

PIXELS = 32
bibtex = """@inproceedings{croce2021robustbench,
    title = {RobustBench: a standardized adversarial robustness benchmark},
    author = {Croce, Francesco and Andriushchenko, Maksym and Sehwag, Vikash and Debenedetti, Edoardo and
        Flammarion, Nicolas and Chiang, Mung and Mittal, Prateek and Hein, Matthias},
    booktitle = {Advances in Neural Information Processing Systems: Datasets and Benchmarks},
    year = {2021},
}"""


@dataclass(frozen=True)
class Kind:
    """One architecture, and the mean and std that its images are normalised with."""

    network: str  # class of cifar_nets
    sizes: dict[str, int]
    classifier: str
    mean: float
    std: float


KINDS = {
    "Standard": Kind("WideResNet", {"depth": 28, "width": 10}, "fc", 0.0, 1.0),  # takes images in [0, 1] as they are
    "Hendrycks2020AugMix_WRN": Kind("WideResNet", {"depth": 40, "width": 2}, "fc", 0.5, 0.5),
    "Hendrycks2020AugMix_ResNeXt": Kind(
        "ResNeXt", {"depth": 29, "groups": 4, "group_width": 32}, "classifier", 0.5, 0.5
    ),
}


def family() -> Family:
    """The family of the entry point `robustbench`."""
    return Family(_pick, "robustbench:NAME=FILE", f"a CIFAR network of RobustBench ({', '.join(KINDS)})")


def _pick(rest: str) -> PackagedModel:
    name, _, file = rest.partition("=")
    if name not in KINDS:
        raise UserError(f"unknown model 'robustbench:{name}'{did_you_mean(name, KINDS)}")
    if not file:
        pages = [f"{row.weights} ({row.data})" for row in published.table() if row.model == f"robustbench:{name}"]
        raise UserError(
            f"robustbench:{name} needs its checkpoint: download it from {' or '.join(pages)}, "
            f"then use --model robustbench:{name}=FILE"
        )
    kind, path = KINDS[name], Path(file).expanduser()
    return PackagedModel(
        build=partial(_trained, name, path),
        mean=(kind.mean,) * 3,
        std=(kind.std,) * 3,
        input_size=PIXELS,
        interpolation="bicubic",
        files=(path,),
    )


def _trained(name: str, path: Path) -> nn.Module:
    from tta_bench.models import cifar_nets
    from tta_bench.models.checkpoint import fill
    from tta_bench.models.weights import read_state, refuse_unreadable

    refuse_unreadable(path)
    kind, state = KINDS[name], read_state(path)
    _remove_normalisation(state, kind, path)
    head = state.get(f"{kind.classifier}.weight")
    make: Any = getattr(cifar_nets, kind.network)
    network: nn.Module = make(**kind.sizes, **({} if head is None else {"num_classes": len(head)}))
    fill(network, state, path, f"'robustbench:{name}'")
    return network


def _remove_normalisation(state: dict[str, Tensor], kind: Kind, path: Path) -> None:
    """Drop mean and std from weights: the harness normalises. Refuses other values than expected."""
    for buffer, expected in (("mu", kind.mean), ("sigma", kind.std)):
        found = state.pop(buffer, None)
        if found is not None and not (found == expected).all():
            raise UserError(f"{path}: {buffer} is {found.flatten().tolist()}, expected {expected} for each channel")
