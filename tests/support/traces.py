"""Reads the traces of golden/ and runs our methods as they were recorded: see golden/README.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import torch
from timm.models import resnet
from timm.models.resnet import ResNet
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests.support.checkout import ROOT
from tta_bench import Method, build_method

GOLDEN = ROOT / "tests" / "golden"
SHARED = ("model", "model_bn", "inputs")
CASES = sorted(path.stem for path in GOLDEN.glob("*.npz") if path.stem not in SHARED)

NORMS = ("lr", "entropy_threshold", "redundancy_threshold")
DPAL = ("lr", "entropy_threshold", "shift_tokens")
DEYO = ("plpd_threshold", "patch_len", "reweight_ent", "reweight_plpd", "augmentation", "occlusion_size",
        "occlusion_row", "occlusion_column", "entropy_threshold", "entropy_margin")  # fmt: skip
SETTINGS: dict[str, tuple[str, ...]] = {
    "source": (),
    "tent": ("lr",),
    "eata": (*NORMS, "fisher_weight"),
    "sar": ("lr", "entropy_threshold"),
    "tent-come": ("lr", "opinion_classes"),
    "eata-come": (*NORMS, "fisher_weight", "opinion_classes"),
    "shot-im": ("lr", "momentum", "nesterov", "optimizer", "weight_decay", "parameters", "max_grad_norm",
                "pseudo_weight", "pseudo_threshold"),
    "tribe": ("lr", "bn_rate", "bn_share", "anchor_weight", "entropy_threshold"),
    "note": ("lr", "memory_size", "update_frequency", "bn_momentum", "iabn_k"),
    "sar-come": ("lr", "entropy_threshold", "opinion_classes"),
    "dpal": DPAL,
    "dpal-official": DPAL,
    "t3a": ("filter_k", "released_filter"),
    "cfa": ("lr", "momentum", "moments", "overall_weight", "class_weight", "max_grad_norm"),
    "cotta": ("lr", "momentum", "teacher_momentum", "anchor_threshold", "augmentations", "restore_probability"),
    "memo": ("optimizer", "lr", "weight_decay", "augmentations", "reset_optimizer"),
    "adacontrast": ("lr", "momentum", "weight_decay", "teacher_momentum", "temperature", "queue_size", "neighbours",
                    "warmup_samples"),
    "lame": ("affinity", "knn", "force_symmetry"),
    "rdumb": (*NORMS, "momentum", "reset_interval"),
    "deyo": ("lr", "momentum", *DEYO),
    "roid": ("lr", "momentum", "momentum_src", "momentum_probs", "temperature", "use_weighting", "use_consistency",
             "use_prior_correction", "window_length"),
    "cmf": ("lr", "momentum", "alpha", "gamma", "q", "momentum_probs", "temperature", "reset_interval"),
    "foa": ("num_prompts", "fitness_lambda", "population_size"),
    "foa-shift": (),
    "bn-test": (),
    "bn-alpha": ("alpha",),
    "rotta": ("lr", "memory_size", "update_frequency", "teacher_momentum", "bn_momentum", "age_weight",
              "uncertainty_weight"),
    "rmt": ("lr", "momentum", "optimizer", "teacher_momentum", "source_weight", "self_training_weight",
            "contrastive_weight", "temperature", "projection_dim", "warmup_steps"),
    "sotta": ("lr", "memory_size", "update_frequency", "confidence_threshold", "bn_momentum", "rho"),
}  # fmt: skip


class Trace:
    """One recorded case."""

    def __init__(self, case: str) -> None:
        self.file = np.load(GOLDEN / f"{case}.npz")
        self.meta: dict[str, Any] = json.loads(str(self.file["meta"]))
        self.method: str = self.meta["method"]

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        return tensors(self.file, prefix)

    def build(self) -> Method:
        """The method on the recorded model, with the recorded settings, start, draws and source data."""
        model = golden_model(self.meta.get("head_scale", 1.0), self.meta.get("model", "model.npz"))
        method = build_method(
            self.method,
            model,
            num_classes=model.num_classes,
            batch_size=self.meta["nominal_batch_size"],
            params={key: self.meta[key] for key in SETTINGS[self.method] if key in self.meta},
            initial_state=self.tensors("init/"),
        )
        for name, seam in seams(self.meta).items():
            assert callable(getattr(type(method), name, None)), f"{self.method} has no seam '{name}'"
            setattr(method, name, seam)
        if method.needs_source:
            stored = self.meta.get("source_labels") == "stored"
            labels = in_order(self.tensors("source_labels/")) if stored else None
            method.prepare(in_order(tensors(np.load(GOLDEN / "inputs.npz"), "source/")), labels)
        return method

    def adapt(self, method: Method, batch: Tensor) -> Tensor:
        """What the method returns, in the kind of number that was recorded."""
        parts = batch.split(1) if self.meta.get("feed") == "single" else [batch]
        logits = torch.cat([method.adapt(part) for part in parts])
        return logits.softmax(1) if self.meta.get("returns") == "probabilities" else logits


def tensors(file: Any, prefix: str) -> dict[str, Tensor]:
    return {key[len(prefix) :]: torch.tensor(file[key]) for key in file.files if key.startswith(prefix)}


def in_order(numbered: dict[str, Tensor]) -> list[Tensor]:
    return [numbered[key] for key in sorted(numbered, key=int)]


def golden_batches() -> list[Tensor]:
    return in_order(tensors(np.load(GOLDEN / "inputs.npz"), "batch/"))


def golden_model(head_scale: float = 1.0, name: str = "model.npz") -> Any:
    file = np.load(GOLDEN / name)
    config = json.loads(str(file["config"]))
    if "block" in config:
        block = getattr(resnet, config.pop("block"))
        lists = {key: tuple(value) if isinstance(value, list) else value for key, value in config.items()}
        model: Any = ResNet(block, **lists)
    else:
        model = VisionTransformer(**config)
    model.load_state_dict({key: torch.tensor(file[key]) for key in file.files if key != "config"})
    with torch.no_grad():
        for parameter in model.get_classifier().parameters():
            parameter.mul_(head_scale)
    return model


def seams(meta: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """The draws of the recording, by the name of the method that makes them."""
    first = 0 if meta["method"] == "adacontrast" else 1

    def views(images: Tensor, count: int) -> Tensor:
        return torch.stack([images.roll(k + first, dims=-1) * (1 - 0.02 * k) for k in range(count)])

    def restore_mask(tensor: Tensor) -> Tensor:
        return ((torch.arange(tensor.numel()) * 7919) % 1000 < 10).view(tensor.shape)

    def patch_order(images: int, patches: int) -> Tensor:
        return torch.arange(patches).flip(0).expand(images, -1)

    found: dict[str, Callable[..., Any]] = {}
    if "views" in meta:
        found["views"] = views
    if meta.get("restore_mask", "none") != "none":
        found["restore_mask"] = restore_mask
    if "pick" in meta:
        found["pick"] = lambda count: (count - 1) // 2
    if "draw" in meta:
        found["draw"] = cycle((0.1, 0.6, 0.35, 0.85)).__next__
    if meta.get("augmentation") == "hflip" or "augment" in meta:
        found["augment"] = lambda images: images.flip(-1)
    if "patch_order" in meta:
        found["patch_order"] = patch_order
    return found
