"""`tta-bench train-source office-home`: trains, resumes after an interruption, and the suite finds its models."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from tests.support import trees
from tests.support.cli import Cli
from tta_bench.datasets import cifar
from tta_bench.datasets.office_home import CLASSES, DOMAINS
from tta_bench.models import checkpoint, train
from tta_bench.models import source as models
from tta_bench.models.cifar_recipes import NETWORKS, part

TAG = "test_vit.r160_in1k"  # timm's smallest ViT
NAMES = [f"Class_{c:02d}" for c in range(CLASSES)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All 65 classes, one to four JPEGs of each in a domain, and weights to start from."""
    root = tmp_path_factory.mktemp("data")
    trees.office_home(root, NAMES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(timm.create_model(TAG).state_dict(), root / "start.safetensors")
    return root


@pytest.fixture(autouse=True)
def _small_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published counts are those of the small tree."""
    for d, domain in enumerate(DOMAINS):
        monkeypatch.setitem(DOMAINS, domain, (d + 1) * CLASSES)


def command(data: Path, domain: str, *more: object) -> tuple[object, ...]:
    model = f"{TAG}={data / 'start.safetensors'}"
    return ("train-source", "office-home", "--domain", domain, "--data-root", data, "--model", model, *more)


def interrupt_in_batch(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Ctrl-C, `number` batches from now."""
    jitter, seen = train.jitter, iter(range(number))

    def stopped(*args: Any) -> torch.Tensor:
        if next(seen, None) is None:
            raise KeyboardInterrupt
        return jitter(*args)

    monkeypatch.setattr(train, "jitter", stopped)


def test_an_interrupted_training_ends_with_the_same_weights(
    cli: Cli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "new" / "parts.safetensors"
    status, shown, err = cli(*command(data, "Art", "--epochs", 3, "--out", whole))
    assert (status, err) == (0, "")
    assert "% on held-out clean images" in shown

    with monkeypatch.context() as patch:
        interrupt_in_batch(patch, 3)  # 59 images in batches of 32: in the middle of the second epoch
        status, shown, err = cli(*command(data, "Art", "--epochs", 3, "--out", parts))
    assert (status, err) == (130, "tta-bench: interrupted\n")
    assert "Interrupted after epoch 1 of 3. Run the same command again to resume." in shown
    assert [path.name for path in parts.parent.iterdir()] == ["parts.resume"]

    epochs = []
    with monkeypatch.context() as patch:
        keep = train._keep
        patch.setattr(train, "_keep", lambda path, state: (epochs.append(state["epoch"]), keep(path, state)))
        assert cli(*command(data, "Art", "--epochs", 3, "--out", parts))[0] == 0
    assert epochs == [2, 3], "the first epoch is not trained again"
    expected, found = load_file(whole), load_file(parts)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert sorted(path.name for path in parts.parent.iterdir()) == ["parts.md", "parts.safetensors"]
    note = checkpoint.load(parts)[1]
    assert note.architecture == {"timm": TAG, "num_classes": 65}
    assert 0 <= note.made_by["clean_test_accuracy"] <= 1
    assert f"{100 * note.made_by['clean_test_accuracy']:.2f} %" in parts.with_suffix(".md").read_text()


OTHERS = {"domain": "images", "seed": "seed, initial weights", "epochs": "epochs", "start": "initial weights"}


@pytest.mark.parametrize("other", OTHERS)
def test_another_training_is_neither_resumed_nor_lost(
    cli: Cli, data: Path, tmp_path: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.safetensors"
    with monkeypatch.context() as patch:
        interrupt_in_batch(patch, 2)
        assert cli(*command(data, "Art", "--epochs", 2, "--out", out))[0] == 130
    kept = out.with_suffix(".resume").read_bytes()
    words = list(command(data, "Clipart" if other == "domain" else "Art", "--epochs", 2, "--out", out))
    if other == "epochs":
        words += ["--epochs", 3]
    if other == "seed":
        words += ["--seed", 1]
    if other == "start":
        state = load_file(data / "start.safetensors")
        save_file({name: tensor + 0.01 for name, tensor in state.items()}, tmp_path / "moved.safetensors")
        words[words.index("--model") + 1] = f"{TAG}={tmp_path / 'moved.safetensors'}"
    epochs: list[int] = []
    monkeypatch.setattr(train, "_keep", lambda path, state: epochs.append(state["epoch"]))
    status, _, err = cli(*words)
    assert (status, err.count("\n"), epochs) == (2, 1, [])
    said = (
        f"{out.with_suffix('.resume')} holds another training, `tta-bench train-source office-home --domain Art --model"
    )
    assert said in err
    assert f"--seed 0 --epochs 2`, stopped after epoch 1; it differs in {OTHERS[other]}: repeat that command" in err
    assert out.with_suffix(".resume").read_bytes() == kept
    assert cli(*words, "--fresh")[0] == 0
    assert epochs == list(range(1, 4 if other == "epochs" else 3))
    assert not out.with_suffix(".resume").exists()


@pytest.mark.slow
def test_the_suite_finds_the_model_of_each_domain(cli: Cli, data: Path, tmp_path: Path) -> None:
    run = ("run", "--suite", "office-home", "--data-root", data, "--methods", "source", "--limit", 8, "--seeds", 0)
    status, _, err = cli(*run, "--out", tmp_path / "run")
    assert (status, err.count("\n")) == (2, 1)
    assert re.search("make it with `tta-bench train-source office-home --domain (Art|RealWorld)`", err)
    for domain in DOMAINS:
        assert cli(*command(data, domain, "--epochs", 1))[0] == 0
        assert (data / "models" / f"office-home-{domain}.safetensors").is_file()

    status, shown, _ = cli(*run, "--out", tmp_path / "run")
    assert status == 0, shown
    records = [json.loads(file.read_text()) for file in (tmp_path / "run" / "cells").glob("*.json")]
    assert len(records) == 12
    used = {record["cell"]["tasks"][0]: record["cell"]["weights"] for record in records}
    for domain in DOMAINS:
        weights = checkpoint.weights_hash(load_file(data / "models" / f"office-home-{domain}.safetensors"))
        assert {used[task] for task in used if task.startswith(f"{domain}-to-")} == {weights}
    assert len(set(used.values())) == 4, "each domain has a model of its own"
    assert {record["samples"] for record in records} == {8}


def test_a_model_trained_here_can_start_another_training(cli: Cli, data: Path, tmp_path: Path) -> None:
    """Its header describes it: its name is no timm name."""
    embedded = Path(str(resources.files("tta_bench.models.checkpoints"))) / "digits_vit.safetensors"
    first, second, third = (tmp_path / f"{name}.safetensors" for name in ("first", "second", "of timm"))
    words = ("train-source", "office-home", "--domain", "Art", "--data-root", data, "--epochs", 1)
    assert cli(*words, "--model", embedded, "--out", first)[0] == 0
    assert cli(*words, "--model", first, "--out", second)[0] == 0
    for path in (first, second):
        source = models.load(str(path))
        assert (source.num_classes, source.input_size, len(source.network.blocks)) == (CLASSES, 32, 12)  # type: ignore[arg-type]
        assert source.mean == models.load("digits-vit").mean
    assert cli(*command(data, "Art", "--epochs", 1, "--out", third))[0] == 0
    assert cli(*words, "--model", third, "--out", third)[0] == 0
    assert models.load(str(third)).architecture == {"timm": TAG, "num_classes": CLASSES}


def test_the_note_holds_a_command_that_reproduces_the_weights(cli: Cli, data: Path, tmp_path: Path) -> None:
    start = tmp_path / "my start.safetensors"
    start.write_bytes((data / "start.safetensors").read_bytes())
    words = ("train-source", "office-home", "--domain", "Art", "--data-root", data)
    assert (
        cli(*words, "--model", f"{TAG}={start}", "--epochs", 1, "--seed", 3, "--out", tmp_path / "a.safetensors")[0]
        == 0
    )
    command = checkpoint.load(tmp_path / "a.safetensors")[1].made_by["command"]
    assert command in (tmp_path / "a.md").read_text()
    assert cli(*shlex.split(command)[1:], "--data-root", data, "--out", tmp_path / "b.safetensors")[0] == 0
    first, second = (load_file(tmp_path / f"{name}.safetensors") for name in "ab")
    assert all(torch.equal(first[name], second[name]) for name in first)


BAD = [
    (["--domain", "Atr"], "office-home: unknown domain 'Atr'; did you mean 'Art'"),
    ([], "train-source office-home needs --domain: Art, Clipart, Product or RealWorld"),
    (["--domain", "Art", "--data-root", "none"], "--data-root none is not a folder"),
    (["--domain", "Product"], "OfficeHome/Product is missing: expected OfficeHome/<Art|"),
    (["--domain", "Art", "--out", "file/art.safetensors"], "file/art.safetensors cannot be written"),
    (["--domain", "Art", "--out", "folder.safetensors"], "folder.safetensors is a folder, expected a file"),
    (["--domain", "Art", "--out", "art.pth"], "art.pth: expected a name that ends in .safetensors"),
    (["--domain", "Art", "--model", "vit_tniy"], "unknown model 'vit_tniy'; did you mean"),
    (["--domain", "Art", "--out", "old.safetensors"], "old.resume: not a readable state of an interrupted training"),
    (["--domain", "Art", "--model", f"{TAG}=OfficeHome"], "model file OfficeHome is a folder, expected .safetensors"),
    (["--domain", "Art", "--seed", "9" * 26], "expected a whole number below 2^63, got '99999999999999999999999999'"),
    (["--domain", "Art", "--seed", "-1"], "expected a whole number of at least 0, got '-1'"),
    (["--domain", "Art", "--epochs", "9" * 400], "expected a whole number from 1 to 1,000,000, got '999"),
    (["--domain", "Art", "--epochs", "1e3"], "expected a whole number of at least 1, got '1e3'"),
]


@pytest.mark.parametrize(("words", "said"), BAD, ids=[" ".join(words)[:60] or "nothing" for words, _ in BAD])
def test_a_mistake_is_one_line(cli: Cli, data: Path, words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "OfficeHome").mkdir()
    for domain in ("Art", "Clipart"):
        (tmp_path / "OfficeHome" / domain).symlink_to(data / "OfficeHome" / domain)
    (tmp_path / "file").touch()
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "old.resume").write_bytes(b"no state")
    model = f"{TAG}={data / 'start.safetensors'}"
    status, shown, err = cli("train-source", "office-home", "--data-root", tmp_path, "--model", model, *words)
    assert (status, said in err, err.count("\n"), shown) == (2, True, 1, ""), err
    assert not list(tmp_path.rglob("*.safetensors/*"))


def test_part_of_a_domain_is_refused_without_mentioning_suites(
    cli: Cli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DOMAINS, "Art", 2427)
    status, _, err = cli(*command(data, "Art", "--out", tmp_path / "art.safetensors"))
    assert (status, err.count("\n")) == (2, 1)
    assert "65 images, expected 2,427" in err
    assert "(a source model is trained on a whole domain)" in err
    assert "allow_partial" not in err


def test_digits_have_no_domains(cli: Cli) -> None:
    status, _, err = cli("train-source", "digits", "--domain", "Art")
    assert (status, err.count("\n")) == (2, 1)
    assert "train-source digits takes no --domain" in err


def test_cifar_networks_train_resume_and_load(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (48, 32, 32, 3), np.uint8)
    labels = np.arange(48) % 10
    monkeypatch.setattr(cifar, "_load", lambda folder, classes, split: (pixels, labels))
    monkeypatch.setattr(cifar, "IMAGES", {"train": 48, "test": 48})
    (tmp_path / "cifar-10-batches-py").mkdir()
    recipe = dataclasses.replace(NETWORKS["resnet20"].recipe, batch_size=4, bf16=False)
    monkeypatch.setitem(NETWORKS, "resnet20", dataclasses.replace(NETWORKS["resnet20"], recipe=recipe, parts=2))
    out = tmp_path / "net.safetensors"
    words = ("train-source", "cifar10", "--network", "resnet20", "--data-root", tmp_path, "--epochs", 2, "--out", out)
    status, said, err = cli(*words)
    assert (status, err) == (0, ""), err
    assert "% on held-out clean images" in said
    model = models.load(str(out))
    assert (model.num_classes, sum(p.numel() for p in model.network.parameters())) == (10, 269_722)
    assert checkpoint.read_note(out).made_by["command"].startswith("tta-bench train-source cifar10 --network resnet20")
    assert cli("train-source", "cifar10")[2].startswith("tta-bench: error: --network")
    assert cli("train-source", "digits", "--network", "resnet20")[0] == 2


def test_parts_of_the_train_images_cover_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    images = cifar.CleanImages(Path(), 10, "train", np.arange(50), [f"{i}" for i in range(50)], np.arange(50) % 10)
    lap = [part(images, 4, epoch) for epoch in range(4)]
    assert sorted(int(i) for some in lap for i in some.ids) == list(range(50))
    assert list(part(images, 4, 4).ids) != list(lap[0].ids)
    assert list(lap[2].labels) == [int(i) % 10 for i in lap[2].ids]


def test_shifted_images_are_moved_by_whole_pixels() -> None:
    images = torch.arange(64 * 3 * 8 * 8).view(64, 3, 8, 8).float()
    moved = train.shift(images, torch.Generator().manual_seed(0), 2, flip=True)
    starts = {int(image[0, 2, 2]) - 64 * 3 * number for number, image in enumerate(moved)}
    assert moved.shape == images.shape
    assert len(starts) > 10
    assert all(float(value) in {0.5, *images[5].flatten().tolist()} for value in moved[5].flatten())
