"""The source models of `tta-bench train-source`: what each is trained on, and how."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tta_bench.data.images import ImageSet
from tta_bench.data.seeding import permutation
from tta_bench.datasets import digit_pairs, digits
from tta_bench.datasets.files import FolderImages
from tta_bench.datasets.office_home import CLASSES, OfficeHome, model_places
from tta_bench.datasets.on_disk import at
from tta_bench.errors import UserError
from tta_bench.models import checkpoint, prompts
from tta_bench.models import source as models
from tta_bench.models.stacking import Stage, fit_stacked
from tta_bench.models.train import Fresh, Recipe, Target, fit, refuse_bad_output

# 12 blocks, because SAR and DPAL leave blocks 9-11 alone; 64 wide, so that the file stays below 3 MB.
DIGITS_VIT: dict[str, Any] = {
    "img_size": 32,
    "patch_size": 8,
    "num_classes": 10,
    "embed_dim": 64,
    "depth": 12,
    "num_heads": 4,
}
DIGITS_NOTE = checkpoint.ModelNote(DIGITS_VIT, mean=(0.4,) * 3, std=(0.15,) * 3)  # roughly the train split's
DIGITS_RECIPE = Recipe(epochs=120, batch_size=50, lr=1e-3)

# Wide images of 8 patches and a narrow MLP, so that six methods on several streams take less than two minutes.
DIGIT_PAIRS_VIT: dict[str, Any] = {
    "img_size": [digit_pairs.HEIGHT, digit_pairs.WIDTH],
    "patch_size": 8,
    "num_classes": digit_pairs.NUM_CLASSES,
    "embed_dim": 64,
    "depth": 12,
    "num_heads": 4,
    "mlp_ratio": 2,
}
DIGIT_PAIRS_NOTE = checkpoint.ModelNote(DIGIT_PAIRS_VIT, mean=(0.41,) * 3, std=(0.1,) * 3)
DIGIT_PAIRS_RECIPE = Recipe(epochs=26, batch_size=128, lr=1.5e-3, jitter=False)  # drawings vary by themselves
DIGIT_PAIRS_STAGES = (Stage(3, 8 / 26, rate=2), Stage(6, 4 / 26, rate=4 / 3), Stage(12, 14 / 26, rate=1))
DIGIT_PAIRS_EPOCH = 25_600  # drawings, new ones in every epoch: the same ones would be memorised
DIGIT_PAIRS_TEST = 5_000

PROMPT_EPOCHS = {"digits": 20, "digit-pairs": 2, "office-home": 5}
PROMPT_BATCH = 128

OFFICE_HOME_MODEL = "vit_base_patch16_224.augreg_in21k_ft_in1k"
OFFICE_HOME_RECIPE = Recipe(epochs=10, batch_size=32, lr=3e-5, turn=0.0, flip=True)
HELD_OUT_SHARE = 0.1


class WholeOfficeHome(OfficeHome):
    """Refuses a smaller set: training has no suite that could allow one."""

    def refuse_partial(self, where: Path, complaint: str | None) -> None:
        if complaint:
            raise UserError(f"{where}: {complaint} (a source model is trained on a whole domain)")


def train_digits(recipe: Recipe, target: Target) -> float:
    """Train the embedded suites' model on the clean train split; accuracy is on the clean test split."""
    train, test, command = digits.clean("train"), digits.clean("test"), _command("digits", recipe.seed, recipe.epochs)
    return fit(DIGITS_NOTE, train, test, recipe, target, command=command)


def train_digit_pairs(recipe: Recipe, target: Target) -> float:
    """Train the digit-pairs suites' model; accuracy is on drawings of digits that it has not seen."""
    refuse_bad_output(target.out)
    return fit_stacked(
        DIGIT_PAIRS_NOTE,
        DIGIT_PAIRS_STAGES,
        lambda blocks, epoch: digit_pairs.Drawings(f"train/{blocks}/{epoch}", "train", DIGIT_PAIRS_EPOCH),
        digit_pairs.Drawings("clean", "test", DIGIT_PAIRS_TEST),
        recipe,
        target,
        command=_command("digit-pairs", recipe.seed, recipe.epochs),
        loss=_pair_loss,
    )


def _pair_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the pair and of each of its digits: ten classes are learned faster than a hundred."""
    pairs = logits.log_softmax(1).view(-1, 10, 10)
    left, right = pairs.logsumexp(2), pairs.logsumexp(1)
    return F.nll_loss(pairs.flatten(1), labels) + F.nll_loss(left, labels // 10) + F.nll_loss(right, labels % 10)


def train_office_home(domain: str, root: Path | None, base: str, recipe: Recipe, target: Target) -> float:
    """Fine-tune a model with a new head on nine tenths of a domain; accuracy is on the last tenth."""
    dataset = WholeOfficeHome(root)
    dataset.domain(domain)  # refuse bad data before weights are loaded, which may need a download
    refuse_bad_output(target.out)
    source = models.load(base)
    if not source.architecture:
        raise UserError(f"--model {base}: comes from a package, but checkpoints can describe timm models only")
    train, test = _office_home_split(dataset.sized(source.input_size, source.interpolation).domain(domain), domain)
    network: Any = source.network
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network.reset_classifier(CLASSES)
    network.requires_grad_(True)
    note = checkpoint.ModelNote({**source.architecture, "num_classes": CLASSES}, source.mean, source.std)
    command = _command("office-home", recipe.seed, recipe.epochs, "--domain", domain, "--model", base)
    return fit(note, train, test, recipe, target, command=command, model=network)


def _office_home_split(images: FolderImages, domain: str) -> tuple[ImageSet, ImageSet]:
    """Nine tenths of a domain to train on, and the rest."""
    order = permutation(len(images.ids), "office-home", domain, "held out")
    held_out = round(HELD_OUT_SHARE * len(order))
    return at(images, order[held_out:]), at(images, order[:held_out])


def train_prompts(
    data: str,
    domain: str | None,
    root: Path | None,
    model: str | None,
    method: str,
    target: Target,
    *,
    epochs: int | None,
    seed: int,
) -> float:
    """Train a method's prompts with a source model, on the images that this model was trained on."""
    epochs = epochs or PROMPT_EPOCHS[data]
    refuse_bad_output(target.out)
    name = model or (f"{data}-vit" if domain is None else str(office_home_out(root, domain)))
    source = models.load(name)
    train: ImageSet | Fresh
    if domain is not None:
        dataset = WholeOfficeHome(root).sized(source.input_size, source.interpolation)
        train, test = _office_home_split(dataset.domain(domain), domain)
    elif data == "digits":
        train, test = digits.clean("train"), digits.clean("test")
    else:
        train = lambda epoch: digit_pairs.Drawings(f"train/prompts/{epoch}", "train", DIGIT_PAIRS_EPOCH)  # noqa: E731
        test = digit_pairs.Drawings("clean", "test", DIGIT_PAIRS_TEST)
    more = ["--prompts", method, *(["--domain", domain] if domain else []), *(["--model", model] if model else [])]
    return prompts.train_prompts(
        method,
        source,
        train if callable(train) else lambda epoch: train,
        test,
        target,
        epochs=epochs,
        batch_size=PROMPT_BATCH,
        seed=seed,
        command=_command(data, seed, epochs, *more),
    )


def _command(data: str, seed: int, epochs: int, *more: str) -> str:
    """A command that reproduces the weights, wherever the data is and whatever later defaults are."""
    settings = ("--seed", str(seed), "--epochs", str(epochs))
    return shlex.join(("tta-bench", "train-source", data, *more, *settings))


def office_home_out(root: Path | None, domain: str) -> Path:
    """Where the suite searches for the model first."""
    return model_places(root, domain)[0]
