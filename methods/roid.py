"""ROID: learn from samples that are new and certain, agree with an altered view, and stay close to the source.

Made for streams that go on and change. Per batch:
1. forward; each sample gets the weight exp(diversity * certainty / temperature). Diversity is one minus the cosine
   to a moving average of predictions, certainty the negative entropy, both scaled to [0, 1] over the batch. Samples
   below the mean diversity are dropped;
2. loss of the kept samples: soft likelihood ratio, -sum p log(p / (1 - p)), whose gradient does not fade for sure
   predictions, and symmetric cross-entropy with the prediction of an augmented view, with gradient on both sides.
   The weighted sum is divided by the nominal batch size;
3. a step with nesterov momentum on all norm layers, then 1 % of the way back to the source weights;
4. prior correction: the logits of step 1 are multiplied by the smoothed mean prediction of the batch. They are
   logits times a prior, not log probabilities: only their order means something.

Source: Marsden, Döbler and Yang, "Universal Test-time Adaptation through Weight Ensembling, Diversity Weighting, and
Prior Correction", WACV 2024 (mariodoebler/test-time-adaptation). Departs from the code: samples that are not kept get
no backward pass; `use_consistency` without `use_weighting` takes all samples, where the code crashes; where all
samples of a batch have the same diversity or certainty, scaling gives 0 (weight 1, nothing dropped), where the code
divides 0 by 0 and its weights become NaN. So one image at a time works as well, each one with a step of its own. The
code's way for single images is `window_length` > 1: the newest images are learned from together each time all of them
are new, and each is predicted alone in between. As released, that loss is divided by the nominal batch size, 1.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tta_bench.method import Method

from ._augment import ColourAndAffine
from ._draws import Draws
from ._entropy import entropy
from ._norms import norm_parameters, samples_interact, set_up
from ._optim import Sgd, gradients
from ._passes import Passes
from ._ranges import positive, shares


class Roid(Method):
    """Weighted self-training of the norm layers with weight ensembling and prior correction.

    `reset_interval` > 0 returns to the source weights after so many updates; by default never, as released.
    """

    paper = "Marsden et al., WACV 2024"
    bibtex = r"""@inproceedings{marsden2024roid,
        title = {Universal Test-time Adaptation through Weight Ensembling, Diversity Weighting, and Prior Correction},
        author = {Marsden, Robert A. and D{\"o}bler, Mario and Yang, Bin},
        booktitle = {IEEE/CVF Winter Conference on Applications of Computer Vision},
        year = {2024},
    }"""
    adapts = "all norm layers, pulled back to source"
    passes = "1 forward; 1 forward and backward of kept samples; 1 of each of their views"
    passes_per_image = (2.3, 1.3)
    kind = "norms"
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 2.5e-4,
        momentum: float = 0.9,
        momentum_src: float = 0.99,
        momentum_probs: float = 0.9,
        temperature: float = 1 / 3,
        use_weighting: bool = True,
        use_consistency: bool = True,
        use_prior_correction: bool = True,
        window_length: int = 1,
        reset_interval: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if window_length < 1:
            raise ValueError(f"window_length is {window_length}, expected 1 or more")
        if reset_interval < 0:
            raise ValueError(f"reset_interval is {reset_interval}, expected 0 (never) or more")
        positive(temperature=temperature)
        shares(momentum_src=momentum_src, momentum_probs=momentum_probs)
        self.lr, self.momentum = lr, momentum
        self.momentum_src, self.momentum_probs, self.temperature = momentum_src, momentum_probs, temperature
        self.use_weighting, self.use_consistency = use_weighting, use_consistency
        self.use_prior_correction = use_prior_correction
        self.window_length, self.reset_interval, self.seed = window_length, reset_interval, seed
        self._adapted = norm_parameters(model)
        set_up(model, list(self._adapted.values()))
        self._passes = Passes(model)
        self._interact = samples_interact(model)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return dict(self._adapted)

    def forget(self) -> None:
        self._forget_learning()
        self._passes.forget()
        self._views = ColourAndAffine(Draws(self.seed))
        self._updates = 0
        self._window: Tensor | None = None
        self._newest = -1

    def _forget_learning(self) -> None:
        """What a periodic reset clears besides the weights: momentum and the average prediction."""
        self._sgd = Sgd(list(self._adapted.values()), lr=self.lr, momentum=self.momentum, nesterov=self.momentum > 0)
        like = next(iter(self._adapted.values()))
        self._average = torch.full((self.num_classes,), 1 / self.num_classes, device=like.device)

    def augment(self, images: Tensor) -> Tensor:
        """The views that predictions must agree with: colours, turn, shift and flip, one draw for the whole batch."""
        return self._views(images)

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        if len(batch) > 1:
            return self._learn(batch)
        window = self._slide(batch)
        if self._newest == self.window_length - 1:
            return self._learn(window)[-1:]
        with torch.no_grad():
            # Statistics of a BatchNorm are better over the window; otherwise the image stands for itself.
            return self._passes.everyone(window)[self._newest, None] if self._interact else self._passes.everyone(batch)

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": self._passes.everyone(batch)}

    @torch.no_grad()
    def predict(self, batch: Tensor) -> Tensor:
        logits = self._passes.everyone(batch)
        return self._corrected(logits) if len(batch) > 1 or self.window_length == 1 else logits

    def _slide(self, image: Tensor) -> Tensor:
        """Put an image in place of the oldest one of the window."""
        self._newest = (self._newest + 1) % self.window_length
        if self._window is None or len(self._window) < self.window_length:
            self._window = image.clone() if self._window is None else torch.cat([self._window, image])
        else:
            self._window[self._newest] = image[0]
        return self._window

    def _learn(self, batch: Tensor) -> Tensor:
        look = self._passes.look(batch, lambda logits: self._weights(logits).nonzero().squeeze(1))
        weights = self._weights(look.logits)[look.chosen]
        if self.use_weighting:
            mean = look.logits.float().softmax(1).mean(0)
            self._average = self.momentum_probs * self._average + (1 - self.momentum_probs) * mean
        if look.chosen_logits is not None:
            losses = soft_likelihood_ratio(look.chosen_logits)
            if self.use_consistency:
                view_logits = self._passes.everyone(self.augment(batch[look.chosen]))
                losses = losses + symmetric_cross_entropy(look.chosen_logits, view_logits)
            loss = (weights * losses).sum() / self.batch_size
            self._sgd.step(gradients(loss, self._sgd.tensors))
            self._ensemble()
            self._count_update()
        return self._corrected(look.logits)

    def _weights(self, logits: Tensor) -> Tensor:
        """How much each sample counts; 0 for those that are dropped."""
        if not self.use_weighting:
            return torch.ones(len(logits), device=logits.device)
        likeness = F.cosine_similarity(self._average[None], logits.float().softmax(1), dim=1)
        diversity, certainty = scaled(1 - likeness), scaled(-entropy(logits))
        return (diversity * certainty / self.temperature).exp() * (diversity >= diversity.mean())

    @torch.no_grad()
    def _ensemble(self) -> None:
        torch._foreach_lerp_(self._sgd.tensors, list(self.snapshot.values()), 1 - self.momentum_src)

    def _count_update(self) -> None:
        self._updates += 1
        if self.reset_interval and self._updates % self.reset_interval == 0:
            self.load_adapted_state(self.snapshot)
            self.resets += 1
            self._forget_learning()

    def _corrected(self, logits: Tensor) -> Tensor:
        """Logits times the smoothed share of each class in this batch, as released."""
        if not self.use_prior_correction:
            return logits
        prior = logits.float().softmax(1).mean(0)
        smooth = max(1 / len(logits), 1 / self.num_classes) / prior.max()
        return logits * ((prior + smooth) / (1 + smooth * self.num_classes)).to(logits.dtype)


def scaled(values: Tensor) -> Tensor:
    """Values moved and stretched to [0, 1]; 0 where they are all equal."""
    low, high = values.aminmax()
    return (values - low) / (high - low).clamp_min(torch.finfo(values.dtype).tiny)


def soft_likelihood_ratio(logits: Tensor) -> Tensor:
    """Per sample: minus the expected log odds of the prediction, with probabilities cut at 0.99."""
    p = logits.float().softmax(1).clamp_max(0.99)
    return -(p * (p / (1 - p) + 1e-5).log()).sum(1)


def symmetric_cross_entropy(one: Tensor, other: Tensor) -> Tensor:
    """Per sample: the mean of both cross-entropies between two predictions."""
    log_p, log_q = one.float().log_softmax(1), other.float().log_softmax(1)
    return -0.5 * (log_p.exp() * log_q + log_q.exp() * log_p).sum(1)
