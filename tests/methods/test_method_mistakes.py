"""Mistakes in a method's settings, model or source data: the command line answers each with one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
from safetensors.torch import save_file

from tests.support import trees, vits
from tests.support.cli import Cli
from tests.support.needed import needed
from tests.support.small import model_for
from tta_bench import build_method, settings
from tta_bench.errors import UserError
from tta_bench.registry import installed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("t3a", "filter_k=0"), "filter_k is 0, expected 1 or more, or -1 to keep all supports"),
        (("cotta", "augmentations=0"), "augmentations is 0, expected 1 or more; anchor_threshold 0 asks for none"),
        (("memo", "augmentations=0"), "augmentations is 0, expected 1 or more views of each image"),
        (("adacontrast", "queue_size=8"), "queue_size is 8, expected at least the batch size, 32"),
        (("lame", "knn=0"), "knn is 0, expected 1 or more"),
        (("roid", "temperature=0"), "temperature is 0, expected a number above 0"),
        (("cmf", "momentum_src=0.5"), "method 'cmf' has no setting 'momentum_src'"),
        (("foa", "population_size=1"), "population_size is 1, expected 4 or more"),
        (("deyo", "patch_len=0"), "patch_len is 0, expected the number of patches along a side"),
        (("dpal", "predictor_hidden=0"), "predictor_hidden is 0, expected 1 or more, or none for the model's width"),
        (("rotta", "memory_size=0"), "memory_size is 0, expected 1 or more"),
        (("rotta", "update_frequency=0"), "update_frequency is 0, expected 1 or more"),
        (("rotta", "seed=99999999999999999999"), "seed is 99999999999999999999, expected a whole number of 64 bits"),
        (("sotta", "memory_size=0"), "memory_size is 0, expected 1 or more"),
        (("sotta", "update_frequency=0"), "update_frequency is 0, expected 1 or more"),
        (("bn-test",), "bn-test adapts the statistics of BatchNorm2d layers, and VisionTransformer has none"),
        (("tribe",), "tribe adapts the statistics of BatchNorm2d layers, and VisionTransformer has none"),
        (("note",), "note adapts the statistics of BatchNorm2d layers, and VisionTransformer has none"),
        (("tent-come", "opinion_classes=0"), "opinion_classes is 0, expected 1 or more, or none for"),
        (("eata-come", "entropy_threshold=-1"), "entropy_threshold is -1, expected 0 or more"),
        (("shot-im", "pseudo_threshold=-1"), "pseudo_threshold is -1, expected 0 to 1"),
        (("bn-alpha",), "bn-alpha adapts the statistics of BatchNorm2d layers, and VisionTransformer has none"),
        (("dda",), "dda needs a diffusion model (dda.unet=FOLDER) or drawings made earlier (dda.generated=FOLDER)"),
        (("dda", "generated="), "generated is empty, expected a path, or none"),
        (("dda", "unet="), "unet is empty, expected a path, or none"),
        (("dept-g",), "dept-g needs prompts that were trained with the source model: `tta-bench train-source"),
    ],
)
def test_one_line_and_nothing_runs(cli: Cli, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    method, *settings = words
    given = [word for setting in settings for word in ("--set", f"{method}.{setting}")]
    run = ("run", "--suite", "digits-c-5", "--tasks", "fog", "--limit", 32, "--methods", method)
    status, shown, error = cli(*run, *given, "--out", tmp_path / "run")
    assert (status, error.count("\n")) == (2, 1)
    assert said in error
    assert "seed 0" not in shown


@pytest.mark.parametrize("method", ["cfa", "rmt"])
@pytest.mark.parametrize(
    ("clean", "said"),
    [
        ("flat", "ImageNet-val: has no images: expected a folder for each class in it"),
        ("none", "clean source images are needed (a method prepares on them): put the ImageNet validation images as"),
    ],
)
def test_source_images_without_labels_are_refused(cli: Cli, tmp_path: Path, clean: str, said: str, method: str) -> None:
    """Folders name the classes of source images, so images outside of any have no labels for means of classes."""
    trees.imagenet_c(tmp_path)
    if clean == "flat":
        trees.write(tmp_path / "ImageNet-val" / "ILSVRC2012_val_00000001.JPEG")
    save_file(timm.create_model(vits.TINY).state_dict(), tmp_path / "weights.safetensors")
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        f"name: mine\nabout: a test\nmodel: {vits.TINY}={tmp_path}/weights.safetensors\nbatch_size: 2\ntasks: [fog]\n"
        f"data: {{kind: imagenet-c, severity: 5, allow_partial: true}}\nmethods: {{{method}: {{}}}}\n"
    )
    status, _, error = cli("run", "--suite", suite, "--data-root", tmp_path, "--out", tmp_path / "run")
    assert (status, error.count("\n")) == (2, 1)
    assert said in error


THRESHOLDS = ("entropy_threshold", "redundancy_threshold")
NEVER_NEGATIVE = (*THRESHOLDS, "warmup_samples", "scale", "reweight_ent", "reweight_plpd")


@pytest.mark.parametrize("name", installed().names())
def test_negative_weights_and_thresholds_are_refused(name: str) -> None:
    """A loss with a negative weight is maximised, and no entropy lies below a negative threshold: both are slips."""
    for key in settings.defaults(installed().load(name)):
        if key in NEVER_NEGATIVE or key.endswith("_weight"):
            with pytest.raises(UserError, match=f"{key} is -1, expected 0 or more"):
                build_method(name, model_for(name), num_classes=10, batch_size=8, params={**needed(name), key: -1})
