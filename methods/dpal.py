"""DPAL: predict what the domain shift did to the class token, and take it away again.

Each block gets a learned shift token; a small prediction network turns the token's output into a shift that
is subtracted from the class token (`_lifting.py`). The shift should be the same for all samples, the
classes apart: per batch
1. forward; loss = mean entropy of reliable samples - lambda * mean pairwise cosine similarity of the
   predicted shifts, with lambda the share of reliable samples;
2. the prediction networks take a plain SGD step at once;
3. norms and tokens take a SAM step as in SAR: `rho` up the slope, entropy of the samples still reliable
   there;
4. recovery from collapse as in SAR.
The logits are those of the first forward, before the update.

Source: Tang et al., "Dual-Path Adversarial Lifting for Domain Shift Correction in Online Test-Time
Adaptation", ECCV 2024 (yushuntang/DPAL). Paper and released code differ; this is the paper, dpal-official
the code:

| | dpal | dpal-official | setting |
|---|---|---|---|
| logits that are scored | first forward, as sec. 3.1 says | second, perturbed forward | `score` |
| lambda divides by | the samples in the batch | the nominal batch size | `similarity_batch` |

The paper does not say how the prediction networks start (`predictor_init`, see `_lifting.py`). Both start at
zeros, as released: no shift is subtracted before one is learned. Of the starts of this network zeros are
nearest to the source model on photographs, by less than seeds differ (docs/methods.md). They have a price: from zeros
only the last bias can ever learn, every sample gets the same shift, and the similarity loss has no effect.
`source` alone gives the source model's answers for the first batch; it hides the tokens from all others,
which is another network than the paper's. The paper counts about 1.2 M extra weights: `predictor_hidden=64`
makes 1.19 M on a ViT-B, the released code's 768 (the default: as wide as the model) 14.2 M. Where the paper
is silent both follow the code: the second pass of SAM has no similarity term, tokens are under SAM with the
norms, GELU follows both linear layers, and thresholds, rates and frozen blocks. (For ViT-L the supplement
gives batches of 32 and lr 0.002.) Departs from the code: as SAR does, see sar.py. A distilled DeiT keeps its
distillation token as it is; only the class token is corrected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tta_bench.method import Method

from ._entropy import entropy, mean_reliable, reliable, threshold_or_default
from ._lifting import Lifting, PredictorInit, mean_similarity
from ._norms import frozen_modules, norm_parameters, set_up
from ._optim import Sam, Tensors, gradients
from ._passes import Passes
from ._ranges import not_negative
from ._recovery import CollapseWatch, Recovery

Score = Literal["first", "second"]
SimilarityBatch = Literal["actual", "nominal"]


class Dpal(Method):
    """Shift tokens, prediction networks and norms, adapted by reliable entropy and similarity of shifts.

    For the paper's ablations: `similarity=False` drops that loss; `predictor_rho` > 0 puts the prediction
    networks under SAM too, with the whole loss at the perturbed point, in place of their plain step.
    """

    paper = "Tang et al., ECCV 2024"
    bibtex = """@inproceedings{tang2024dpal,
        title = {Dual-Path Adversarial Lifting for Domain Shift Correction in Online Test-time Adaptation},
        author = {Tang, Yushun and Chen, Shuoshuo and Lu, Zhihe and Wang, Xinchao and He, Zhihai},
        booktitle = {European Conference on Computer Vision},
        year = {2024},
    }"""
    adapts = "norm layers but those of late blocks, shift tokens, prediction networks"
    passes = "1 forward and backward; 1 of each for reliable samples"
    passes_per_image = (2, 2)
    kind = "prompts"
    published_batch_size = 64

    def __init__(
        self,
        model: nn.Module,
        *,
        num_classes: int,
        batch_size: int = 64,
        lr: float = 1e-2,
        momentum: float = 0.9,
        rho: float = 0.05,
        predictor_rho: float = 0.0,
        entropy_threshold: float | None = None,
        reset_threshold: float = 0.2,
        recovery: Recovery = "released",
        frozen_blocks: Sequence[int] | None = None,
        shift_tokens: int = 1,
        predictor_hidden: int | None = None,
        predictor_init: PredictorInit = "zeros",
        similarity: bool = True,
        similarity_batch: SimilarityBatch = "actual",
        score: Score = "first",
        seed: int = 0,
    ) -> None:
        super().__init__(model, num_classes=num_classes, batch_size=batch_size)
        if shift_tokens < 1:
            raise ValueError(f"shift_tokens is {shift_tokens}, expected 1 or more")
        if predictor_hidden is not None and predictor_hidden < 1:
            raise ValueError(
                f"predictor_hidden is {predictor_hidden}, expected 1 or more, or none for the model's width"
            )
        not_negative(rho=rho, predictor_rho=predictor_rho)
        self.lr, self.momentum, self.rho, self.predictor_rho = lr, momentum, rho, predictor_rho
        not_negative(entropy_threshold=entropy_threshold or 0)
        self.entropy_threshold = threshold_or_default(entropy_threshold, num_classes)
        self.reset_threshold, self.recovery = reset_threshold, recovery
        self.similarity, self.similarity_batch = similarity, similarity_batch
        self.score = score
        self.score_point = "perturbed" if score == "second" else "pre-update"
        self._lifting = Lifting(
            model, tokens=shift_tokens, hidden=predictor_hidden, predictor_init=predictor_init, seed=seed
        )
        norms = norm_parameters(model, frozen_modules(model, frozen_blocks))
        self._smooth: dict[str, Tensor] = {**norms, "shift_tokens": self._lifting.tokens}
        self._plain = self._lifting.predictor_parameters()
        set_up(model, list(self.adapted_parameters().values()))
        self._passes = Passes(model, self._lifting)
        self.forget()

    def adapted_parameters(self) -> dict[str, Tensor]:
        return {**self._smooth, **self._plain}

    def forget(self) -> None:
        self._sam = Sam(list(self._smooth.values()), lr=self.lr, momentum=self.momentum, rho=self.rho)
        self._forget_predictors()
        self._watch = CollapseWatch(self.reset_threshold)
        self._passes.forget()

    def _forget_predictors(self) -> None:
        tensors = list(self._plain.values())
        self._predictor_sam = Sam(tensors, lr=self.lr, momentum=self.momentum, rho=self.predictor_rho)

    @torch.enable_grad()
    def adapt(self, batch: Tensor) -> Tensor:
        look = self._passes.look(
            batch, lambda logits: reliable(entropy(logits), self.entropy_threshold), graph_for_all=self.similarity
        )
        if look.chosen_logits is None:
            return self._coast(batch, look.logits)
        weight = len(look.chosen) / (len(batch) if self.similarity_batch == "actual" else self.batch_size)
        loss = self._with_similarity(entropy(look.chosen_logits).mean(), weight)
        grads = gradients(loss, [*self._smooth.values(), *self._plain.values()])
        smooth, plain = grads[: len(self._smooth)], grads[len(self._smooth) :]
        if self.predictor_rho > 0:
            with self._predictor_sam.perturbed(plain):
                logits, second, descent, plain_descent = self._look_again(batch, look.chosen, smooth, weight)
            self._predictor_sam.step(plain_descent)
        else:
            self._predictor_sam.step(plain)
            logits, second, descent, _ = self._look_again(batch, look.chosen, smooth, weight)
        self._finish(second, descent)
        return logits if self.score == "second" else look.logits

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        logits = self._passes.everyone(batch)
        return {"logits": logits, "shifts": torch.stack(self._lifting.shifts)[:, : len(batch)]}

    def _look_again(
        self, batch: Tensor, chosen: Tensor, ascent: Tensors, weight: float
    ) -> tuple[Tensor, float | None, Tensors, Tensors]:
        """Logits, entropy and gradients of both groups with norms and tokens `rho` up the slope."""
        smoothed = self.predictor_rho > 0
        plain: Tensors = ()
        with self._sam.perturbed(ascent):
            logits, chosen_logits = self._passes.look_again(
                batch,
                chosen,
                all_logits=self.score == "second",
                graph_for_all=smoothed and self.similarity,
            )
            mean = mean_reliable(entropy(chosen_logits), self.entropy_threshold)
            if smoothed:
                whole = self._with_similarity(mean.loss, weight)
                plain = gradients(whole, self._predictor_sam.tensors, keep_graph=True)
            return logits, mean.value, gradients(mean.loss, self._sam.tensors), plain

    def _with_similarity(self, loss: Tensor | None, weight: float) -> Tensor | None:
        """Add the loss that wants the shifts of the last pass alike, unless it is switched off."""
        if not self.similarity:
            return loss
        unlike = -weight * mean_similarity(self._lifting.shifts)
        return unlike if loss is None else loss + unlike

    def _coast(self, batch: Tensor, logits: Tensor) -> Tensor:
        """No sample is reliable: momentum alone moves the weights, prediction networks first, as released."""
        self._predictor_sam.step(gradients(None, self._predictor_sam.tensors))
        if self.score == "second" and not self.predictor_rho:
            with torch.no_grad():
                logits = self._passes.everyone(batch)
        self._finish(None, gradients(None, self._sam.tensors))
        return logits

    def _finish(self, loss: float | None, descent: Tensors) -> None:
        """Step norms and tokens, then return to the start if the predictions have collapsed."""
        self._sam.step(descent)
        if self._watch.sees_collapse(loss):
            self.load_adapted_state(self.snapshot)
            self.resets += 1
            # The released code forgets the prediction networks' momentum, but neither SAM's nor the average.
            self._forget_predictors() if self.recovery == "released" else self.forget()
