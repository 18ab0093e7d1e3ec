"""What one adapt step costs, as a multiple of a plain forward: `python benchmarks/adapt_cost.py`.

ViT-Tiny/16 at 224 px with random weights, batch 16. All methods and Source take turns on the same batch in one
process, in alternating order, so that a noisy machine slows them alike; the figure is the median of the ratios.
The share of reliable samples is forced: each batch gets the entropy threshold that lets that many through, and rates
and rho of zero keep it so, for the same work.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field

import timm
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tta_bench import Method, build_method
from tta_bench.cost import CostCounter

BATCH = 16
RELIABLE = {0.5: (8, 8, 8, 8, 8), 0.1: (2, 1, 2, 1, 2)}  # of 16 in each of five batches
LIMITS = {
    0.5: {"tent": 2.45, "eata": 2.3, "sar": 3.7, "dpal": 4.2},
    0.1: {"tent": 2.45, "eata": 1.5, "sar": 1.8, "dpal": 3.2},
}
PARAMS = {
    "source": {},
    "tent": {"lr": 0.0},
    "eata": {"lr": 0.0, "redundancy_threshold": 2.0},
    "sar": {"lr": 0.0, "rho": 0.0},
    "dpal": {"lr": 0.0, "rho": 0.0},
    "dpal-official": {"lr": 0.0, "rho": 0.0},
}


@dataclass
class Contender:
    """A method, the threshold that each batch needs, and what was measured."""

    method: Method
    thresholds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    forwards: float = 0.0
    backwards: float = 0.0

    def run(self, i: int, batch: Tensor) -> float:
        if self.thresholds:
            self.method.entropy_threshold = self.thresholds[i]  # type: ignore[attr-defined]
        start = time.perf_counter()
        self.method.adapt(batch)
        return time.perf_counter() - start


def contender(name: str, batches: list[Tensor], reliable: tuple[int, ...]) -> Contender:
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224")
    made = Contender(build_method(name, model, num_classes=1000, batch_size=BATCH, params=PARAMS[name]))
    if made.method.needs_source:
        made.method.prepare(batches[:1])
    if hasattr(made.method, "entropy_threshold"):
        made.thresholds = [_threshold(made.method, b, k) for b, k in zip(batches, reliable, strict=True)]
        made.method.reset()
    with CostCounter(made.method.model) as count:
        for i, batch in enumerate(batches):  # warms up, too
            made.run(i, batch)
    images = sum(map(len, batches))
    made.forwards, made.backwards = count.sample_forwards / images, count.sample_backwards / images
    return made


def _threshold(method: Method, batch: Tensor, reliable: int) -> float:
    """The entropy between the surest `reliable` samples and the rest, at the logits the method itself sees."""
    method.entropy_threshold = 0.0  # type: ignore[attr-defined]
    log_p = method.adapt(batch).log_softmax(1)
    entropies = (-(log_p.exp() * log_p).sum(1)).sort().values
    return float(entropies[reliable - 1 : reliable + 1].mean())


def measure(share: float, rounds: int, names: list[str]) -> dict[str, Contender]:
    generator = torch.Generator().manual_seed(1)
    batches = [torch.rand(BATCH, 3, 224, 224, generator=generator) for _ in RELIABLE[share]]
    contenders = {name: contender(name, batches, RELIABLE[share]) for name in names}
    for turn in range(rounds):
        order = list(contenders.values())[:: 1 if turn % 2 else -1]
        for i, batch in enumerate(batches):
            for each in order:
                each.seconds.append(each.run(i, batch))
    return contenders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6, help="times five batches per method and share")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--methods", default=",".join(PARAMS), help="names, with commas between")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    names = ["source", *(name for name in args.methods.split(",") if name != "source")]
    table = Table(title=f"adapt step, multiples of Source's forward ({args.threads} threads)")
    for column in (
        "reliable",
        "method",
        "ratio",
        "limit",
        "",
        "forwards/image",
        "backwards/image",
        "ms/batch",
    ):
        table.add_column(column, justify="left" if column == "method" else "right")
    for share in RELIABLE:
        contenders = measure(share, args.rounds, names)
        for name, each in contenders.items():
            ratios = [t / base for t, base in zip(each.seconds, contenders["source"].seconds, strict=True)]
            ratio, limit = statistics.median(ratios), LIMITS[share].get(name)
            verdict = "" if limit is None else "ok" if ratio <= limit else "over"
            table.add_row(
                f"{share}", name, f"{ratio:.2f}", f"{limit or ''}", verdict, f"{each.forwards:.2f}",
                f"{each.backwards:.2f}", f"{statistics.median(each.seconds) * 1e3:.0f}",
            )  # fmt: skip
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
