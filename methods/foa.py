"""FOA: adapt by forward passes alone, with prompts that a genetic search improves and a shift of the features.

A few prompt tokens join the input sequence, behind the class token. Per batch:
1. CMA-ES samples `population_size` candidates for them; the best of the batch before is one more;
2. each candidate gets a forward. Its fitness, of which less is better, is the sum of the predictions'
   entropies plus `fitness_lambda` times the squared distances of mean and standard deviation of the class
   token's features, in all blocks, to those of source images, times the batch size over 64;
3. the best candidate answers, from its features shifted towards the source mean (foa_shift.py) by what
   the batches before have shown;
4. CMA-ES learns from all fitness values, and the moving average of the features from the mean over all
   candidates.
No gradient is ever taken, and no weight of the model changes.

Source: Niu et al., "Test-Time Model Adaptation with Only Forward Passes", ICML 2024 (mr-eggplant/FOA). As
released: the entropy is that of the logits without the shift; population, seed 2020 and initial prompts
as there. `fitness_lambda` is 0.2 for ImageNet-R. The published source data are the 50,000 clean
validation images of ImageNet, the originals of ImageNet-C. Departs from the released code: the seed
drives a generator of FOA's own; `reset` returns to the first prompts instead of drawing others; a batch
of one image has no standard deviation, and the released code stops: here that term is left out of the
fitness. (The paper's variant for single images is not released.) Needs the package `cma`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from tta_bench.errors import UserError
from tta_bench.method import Method

from ._cma import Cma
from ._entropy import entropy
from ._head import frozen
from ._host import sent
from ._moments import Moments
from ._prepared import fitting
from ._prompts import Prompted
from ._ranges import not_negative
from ._shift import ActivationShift

POPULATION = "population/"


class Foa(Method):
    """Prompts found by CMA-ES and a feature shift; for ViTs that classify by their class token.

    `initial_state` may hold `population/i`, which takes the place of the samples for batch i. After each batch,
    `fitness` holds that of every candidate, the best of the batch before last.
    """

    paper = "Niu et al., ICML 2024"
    bibtex = """@inproceedings{niu2024foa,
        title = {Test-Time Model Adaptation with Only Forward Passes},
        author = {Niu, Shuaicheng and Miao, Chunyan and Chen, Guohao and Wu, Pengcheng and Zhao, Peilin},
        booktitle = {International Conference on Machine Learning},
        year = {2024},
    }"""
    adapts = "prompt tokens, a shift of the classifier's input"
    passes = "28 forwards"
    passes_per_image = (28, 0)
    kind = "prompts"
    published_batch_size = 64
    slower_than_source = 300.0  # 28 forwards of a longer sequence, and a search that a CPU does
    needs = ("source images", "cma")
    needs_source = True
    prepare_uses_seed = False
    score_point = "post-update"

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        num_prompts: int = 3,
        fitness_lambda: float = 0.4,
        population_size: int = 27,
        seed: int = 2020,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if num_prompts < 1:
            raise ValueError(f"num_prompts is {num_prompts}, expected 1 or more")
        if population_size < 4:
            raise ValueError(f"population_size is {population_size}, expected 4 or more")
        not_negative(fitness_lambda=fitness_lambda)
        self.fitness_lambda = fitness_lambda
        self.population_size = population_size
        self.seed = seed
        self.fitness: list[float] = []
        self._prompted = Prompted(frozen(model), method="foa", num_classes=num_classes)
        self._prompts = self._prompted.initial_prompts(num_prompts, seed)
        self._shift = ActivationShift(self._prompted.head.linear.weight)
        self._given: dict[int, Tensor] = {}
        self._source: dict[str, Tensor] = {}
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return {"prompts": self._prompts, "feature_mean": self._shift.mean}

    def load_adapted_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_adapted_state({name: value for name, value in state.items() if not _names_population(name)})
        self._shift.notice()
        expected = (self.population_size, self._prompts.numel())
        for name in filter(_names_population, state):
            if state[name].shape != expected:
                raise UserError(
                    f"initial state: '{name}' has shape {tuple(state[name].shape)}, expected {tuple(expected)}"
                )
            self._given[int(name.removeprefix(POPULATION))] = state[name].detach().cpu().clone()

    def forget(self) -> None:
        self._cma = Cma(self._prompts.numel(), self.population_size, self.seed)
        self._batches = 0
        self.fitness = []

    @torch.no_grad()
    def prepare(self, source_batches: Iterable[Tensor], labels: Iterable[Tensor] | None = None) -> None:
        """Mean and standard deviation of source features, without prompts. `reset` keeps them."""
        moments = Moments(2, self._prompted.width)
        for batch in source_batches:
            moments.add(self._prompted(batch, None)[1])
        if moments.count < 2:
            raise UserError(f"foa: prepare() got {moments.count} source images; a standard deviation needs 2 or more")
        self.load_prepared_state({"mean": moments.central()[0].float(), "std": moments.std().float()})

    def prepared_state(self) -> dict[str, Tensor]:
        return dict(self._source)

    def load_prepared_state(self, state: Mapping[str, Tensor]) -> None:
        shapes = dict.fromkeys(("mean", "std"), (self._prompted.width,))
        self._source = fitting(state, shapes, method="foa", like=self._prompts)

    @torch.no_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        self._require_source()
        solutions = np.concatenate([self._population(), self._prompts.flatten().cpu().double().numpy()[None]])
        candidates = sent(torch.from_numpy(solutions).float(), self._prompts).view(-1, *self._prompts.shape)
        values, last = [], []
        with self._prompted.same_images():
            for prompts in candidates:
                logits, features = self._prompted(batch, prompts)
                values.append(self._fitness(logits, features))
                last.append(features[:, -self._prompts.shape[2] :])
        self.fitness = torch.stack(values).tolist()
        best = self.fitness.index(min(self.fitness))
        answer = self._shifted(last[best])
        self._prompts.copy_(candidates[best])
        self._cma.tell(solutions, self.fitness)
        self._shift.update(torch.stack(last).mean((0, 1)))
        self._batches += 1
        return answer

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        self._require_source()
        _, features = self._prompted(batch, self._prompts)
        return {"logits": self._shifted(features[:, -self._prompts.shape[2] :])}

    def _require_source(self) -> None:
        if not self._source:
            raise UserError("foa: adapt() came before prepare(source_batches), which learns the source features")

    def _population(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """The candidates of this batch [population_size, prompts * d]."""
        sampled = self._cma.ask()
        given = self._given.get(self._batches)
        return sampled if given is None else given.double().numpy()

    def _fitness(self, logits: Tensor, features: Tensor) -> Tensor:
        distance = (features.mean(0) - self._source["mean"]).square().sum()
        if len(features) > 1:
            distance = distance + (features.std(0) - self._source["std"]).square().sum()
        return entropy(logits).sum() + self.fitness_lambda * distance * len(features) / 64

    def _shifted(self, last: Tensor) -> Tensor:
        """Logits of the classifier's input, moved towards the source mean."""
        return self._prompted.head.classify(self._shift.towards(self._source["mean"][-last.shape[1] :], last))


def _names_population(name: str) -> bool:
    return name.startswith(POPULATION) and name.removeprefix(POPULATION).isdecimal()
