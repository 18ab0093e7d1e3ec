"""The one interface between the harness and a test-time adaptation method.

A method is a class whose constructor takes the model, `num_classes` and `batch_size`, and its own settings as
keyword arguments with the published defaults. It sees images only, never labels:

    class Mine(Method):
        def __init__(self, model, *, num_classes, batch_size, lr=1e-3):
            super().__init__(model, num_classes=num_classes, batch_size=batch_size)
            ...

        def adapt(self, batch):
            ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from tta_bench.errors import UserError, did_you_mean

ScorePoint = Literal["pre-update", "perturbed", "post-update"]
Kind = Literal["norms", "all weights", "prompts", "statistics", "nothing"]


class Method(ABC):
    """Adapts a model to a stream of unlabelled batches, one `adapt` call per batch.

    The model normalises its input itself, so `adapt` gets images in [0, 1]. A method changes no parameter
    outside `adapted_parameters()`, draws nothing from the global random generators, and after `reset()`
    replays the same stream bit for bit.
    """

    # For `tta-bench list methods` (paper) and `list methods NAME` (all), one short phrase each.
    paper: ClassVar[str] = ""
    adapts: ClassVar[str] = ""
    passes: ClassVar[str] = ""

    bibtex: ClassVar[str] = ""
    """BibTeX entries of its papers, for `tta-bench cite`; those of its base classes are added."""

    passes_per_image: ClassVar[tuple[float, float]] = (1.0, 1.0)
    """About how many forward and backward passes `adapt` needs for an image: expensive cells start first."""

    kind: ClassVar[Kind] = "nothing"
    """What is adapted: norm layers, all weights, tokens or inputs in front of the model, statistics, or nothing."""

    needs: ClassVar[tuple[str, ...]] = ()
    """What a run needs besides the stream: "source images", "source labels", or the name of an extra."""

    published_batch_size: ClassVar[int | None] = None
    """The batch size of the published results, for which the published learning rates hold; None if there is none."""

    needs_source: ClassVar[bool] = False
    """Whether `prepare` must be called with source-like batches before the first `adapt`."""

    uses_labels: ClassVar[bool] = False
    """Whether `prepare` uses the labels of source batches, if given."""

    computes_besides: ClassVar[str] = ""
    """What `adapt` computes outside the given model if that may cost as much as a pass, as "a diffusion model"."""

    caveat: ClassVar[str] = ""
    """What every table with its rows should say, in one phrase; empty if there is nothing."""

    slower_than_source: ClassVar[float] = 50.0
    """How many times as long as Source a cell may take before it is stopped: far more than it should need."""

    score_point: ScorePoint = "pre-update"
    """Which weights computed the logits that `adapt` returns."""

    resets: int = 0
    """How often the method's own recovery scheme has returned to the source weights."""

    prepare_adapts: ClassVar[bool] = False
    """Whether `prepare` changes adapted tensors. Then `reset` returns to them, and `prepared_state` has them."""

    prepare_uses_seed: ClassVar[bool] = True
    """Whether what `prepare` learns depends on the setting `seed`; if not, it is learned once for all seeds."""

    @classmethod
    def files(cls, settings: Mapping[str, Any]) -> list[Path]:
        """Files and folders named by settings whose content changes results, and so belongs to their identity."""
        return []

    def __init__(self, model: nn.Module, *, num_classes: int, batch_size: int = 64) -> None:
        self.model = model
        self.num_classes = num_classes
        self.batch_size = batch_size
        self._start: dict[str, Tensor] = {}

    @abstractmethod
    def adapt(self, batch: Tensor) -> Tensor:
        """Adapt to images [B, 3, H, W] in [0, 1]; return their logits [B, num_classes], detached."""

    def features(self, batch: Tensor) -> dict[str, Tensor]:
        """One forward of the model as adapted so far, for figures; does not affect later `adapt` calls.

        Always has `logits` [B, num_classes]. A method that predicts a domain shift for each sample adds `shifts`
        [blocks, B, d]. A method that adds tokens to its model's input does so here, too.
        """
        return {"logits": self.model(batch)}

    @torch.no_grad()
    def predict(self, batch: Tensor) -> Tensor:
        """Logits [B, num_classes] of the model as adapted so far; does not affect later `adapt` calls."""
        return self.features(batch)["logits"]

    def known_scores(self, logits: Tensor) -> Tensor | None:
        """A score [B] for each image of the last batch, higher if it shows a class that the model knows.

        Gets the logits that `adapt` or `predict` returned. None: streams with unknown classes use the entropy.
        """
        return None

    def prepare(self, source_batches: Iterable[Tensor], labels: Iterable[Tensor] | None = None) -> None:
        """Learn what the method needs from source batches; changes no adapted tensor, unless `prepare_adapts` says so.

        `labels` gives one label tensor per batch, for methods with `uses_labels`. These are source labels: no method
        sees the labels of the stream.
        """
        if self.needs_source:
            raise NotImplementedError(f"{type(self).__name__} needs source data but defines no prepare()")

    def prepared_state(self) -> dict[str, Tensor]:
        """What `prepare` learned, as plain tensors; empty before `prepare` and for methods that learn nothing."""
        return {}

    def load_prepared_state(self, state: Mapping[str, Tensor]) -> None:
        """Load what `prepare` learned elsewhere with the same settings and weights; runs stay the same bit for bit."""
        if state:
            raise UserError(f"prepared state: {type(self).__name__} has no tensor '{min(state)}'")

    def adapted_parameters(self) -> dict[str, Tensor]:
        """The tensors that `adapt` changes, live, by the model's own parameter names."""
        return {}

    def adapted_state(self) -> dict[str, Tensor]:
        """Copies of the adapted tensors as they are now."""
        return {name: tensor.detach().clone() for name, tensor in self.adapted_parameters().items()}

    def load_adapted_state(self, state: Mapping[str, Tensor]) -> None:
        """Set adapted tensors by name; unknown names and wrong shapes raise UserError."""
        live = self.adapted_parameters()
        for name, value in state.items():
            if name not in live:
                raise UserError(f"initial state: unknown tensor '{name}'{did_you_mean(name, live)}")
            if live[name].shape != value.shape:
                raise UserError(
                    f"initial state: '{name}' has shape {tuple(value.shape)}, expected {tuple(live[name].shape)}"
                )
            with torch.no_grad():
                live[name].copy_(value)

    def remember(self) -> None:
        """Take the snapshot that `reset` returns to. `build_method` calls it; `prepare` does if it adapts."""
        self._start = self.adapted_state()

    @property
    def snapshot(self) -> dict[str, Tensor]:
        """The state that `reset` and a method's own recovery return to."""
        if not self._start and self.adapted_parameters():
            raise UserError(
                f"{type(self).__name__} has no snapshot to return to: build it with tta_bench.build_method, "
                f"or call remember() before the first batch"
            )
        return self._start

    def reset(self) -> None:
        """Return to the state before the stream: weights, optimiser and everything learned from the stream."""
        self.load_adapted_state(self.snapshot)
        self.resets = 0
        self.forget()

    def forget(self) -> None:
        """Drop what the method itself gathered from the stream: momentum, moving averages, memories."""
