"""DePT-G: prompts around a ViT, its losses, its bank, and the files that `train-source --prompts` writes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from tta_bench_methods._prompt_training import PromptTraining
from tta_bench_methods._stages import Projected, Staged, agreement, initial_tensors, likeness, stage_weights

from tests.support.cli import Cli
from tests.support.needed import needed, prompts_for
from tests.support.small import small_resnet, small_vit, stream
from tests.support.works import CPU, requests
from tta_bench import build_method
from tta_bench.data.images import ArrayImages
from tta_bench.datasets import digits
from tta_bench.errors import UserError
from tta_bench.models import recipes
from tta_bench.models import source as models
from tta_bench.models.source import keep_classes
from tta_bench.records.store import Store
from tta_bench.runs.bind import Binder
from tta_bench.runs.execute import run_left
from tta_bench.runs.resume import finished
from tta_bench.runs.watcher import Watcher


def built(model: nn.Module | None = None, **params: Any) -> Any:
    params = {**needed("dept-g"), **params}
    return build_method("dept-g", small_vit() if model is None else model, num_classes=10, batch_size=8, params=params)


def staged_forward(vit: Any, images: Tensor, tensors: dict[str, Tensor], stages: int) -> tuple[Tensor, list[Tensor]]:
    """A plain ViT's forward with prompts in front of the class token, new ones for each stage, written out."""
    n, outputs = len(tensors["prompts.0"]), []
    x = vit.patch_embed(images)
    x = torch.cat([vit.cls_token.expand(len(x), -1, -1), x], dim=1) + vit.pos_embed
    per_stage = len(vit.blocks) // stages
    for i, block in enumerate(vit.blocks):
        if i % per_stage == 0:
            prompts = tensors[f"prompts.{i // per_stage}"].expand(len(x), -1, -1)
            x = torch.cat([prompts, x if i == 0 else x[:, n:]], dim=1)
        x = block(x)
        if (i + 1) % per_stage == 0:
            outputs.append(x[:, :n])
    x = vit.norm(x)
    return vit.head(x[:, n]), [*outputs[:-1], x[:, :n]]


@pytest.mark.parametrize(("stages", "prompts"), [(4, 5), (1, 2), (12, 1)])
def test_prompts_enter_at_the_start_of_each_stage(stages: int, prompts: int) -> None:
    vit, (batch,) = small_vit(), stream(count=1)
    tensors = initial_tensors(24, stages=stages, prompts=prompts, seed=0)
    with torch.no_grad():
        expected, outputs = staged_forward(vit, batch, tensors, stages)
        seen = Staged(vit, tensors, method="dept-g", num_classes=10)(batch)
        alone = vit(batch)
    torch.testing.assert_close(seen.logits, expected)
    torch.testing.assert_close(seen.prompts, outputs)
    assert not torch.allclose(alone, expected, atol=1e-3)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in vit.modules())


def test_the_published_network_has_its_published_size() -> None:
    tensors = initial_tensors(768, stages=4, prompts=50, seed=0)
    prompts = [tensor for name, tensor in tensors.items() if name.startswith("prompts.")]
    assert sum(tensor.numel() for tensor in prompts) == 153_600
    assert [tuple(tensors[f"heads.3.{layer}.weight"].shape) for layer in ("fc1", "fc2", "last")] == [
        (2048, 768),
        (256, 2048),
        (2048, 256),
    ]
    bound = math.sqrt(6 / (51 * 768))
    assert 0.99 * bound < max(float(tensor.abs().max()) for tensor in prompts) <= bound


def test_losses_are_those_of_the_formulas() -> None:
    generator = torch.Generator().manual_seed(0)
    student, teacher = (
        Projected(torch.randn(3, 7, generator=generator), [torch.randn(3, 4, 7, generator=generator) for _ in range(2)])
        for _ in range(2)
    )
    centre = torch.randn(7, generator=generator)
    tokens, prompts = agreement(student, teacher, centre, 0.07)
    wanted = ((teacher.features - centre) / 0.07).softmax(1)
    torch.testing.assert_close(tokens, F.cross_entropy(student.features / 0.1, wanted))
    weights = [math.e / (math.e + math.e**2), math.e**2 / (math.e + math.e**2)]
    assert stage_weights(torch.empty(2)).tolist() == pytest.approx(weights)
    apart = spread = 0.0
    for weight, one, other in zip(weights, student.prompts, teacher.prompts, strict=True):
        apart += (
            weight
            * sum(1 - F.cosine_similarity(one[b, i], other[b, i], dim=0) for b in range(3) for i in range(4))
            / 12
        )
        distances = [
            1 - F.cosine_similarity(one[b, i], one[b, j], dim=0)
            for b in range(3)
            for i in range(4)
            for j in range(4)
            if i != j
        ]
        spread -= weight * sum(distances) / (3 * 4 * 4)
    torch.testing.assert_close(prompts, torch.as_tensor(apart))
    torch.testing.assert_close(likeness(student), torch.as_tensor(spread))


def test_what_adapts_and_what_follows() -> None:
    method, (batch,) = built(teacher_momentum=0.9), stream(count=1)
    names = set(method.adapted_parameters())
    own = {name for name in names if not name.startswith("teacher.")}
    assert {"head.weight", "head.bias", "prompts.0", "prompts.3", "heads.3.last.weight"} <= own
    assert names == own | {f"teacher.{name}" for name in own}
    start = method.adapted_state()
    method.adapt(batch)
    first = method.adapted_state()
    method.adapt(batch)
    second = method.adapted_state()
    assert all(not torch.equal(first[name], start[name]) for name in own)
    for name in own:
        before = first[f"teacher.{name}"]
        # The teacher follows before the step, so it has moved towards itself.
        torch.testing.assert_close(before, start[name], atol=1e-8, rtol=1e-6)
        torch.testing.assert_close(second[f"teacher.{name}"], 0.9 * before + 0.1 * first[name])


def test_logits_are_those_of_the_plain_images_after_the_step() -> None:
    method = built()
    for batch in stream(last=3):
        logits = method.adapt(batch)
        torch.testing.assert_close(logits, method.predict(batch))
    assert method.score_point == "post-update"


def test_labels_come_from_the_neighbours_once_there_are_enough() -> None:
    method, (batch,) = built(neighbours=3), stream(count=1)
    with torch.no_grad():
        seen = method._network(batch)
    assert torch.equal(method._pseudo_labels(batch), seen.logits.argmax(1))
    units = F.normalize(seen.features, dim=1)
    method._bank_features = torch.cat([units, units, units])
    predictions = F.one_hot((seen.logits.argmax(1) + 1) % 10, 10).float()
    method._bank_predictions = predictions.repeat(3, 1)
    assert torch.equal(method._pseudo_labels(batch), (seen.logits.argmax(1) + 1) % 10)


def test_the_bank_keeps_the_newest_and_no_more() -> None:
    method = built(queue_size=20)
    for batch in stream(count=5):
        method.adapt(batch)
        newest = F.normalize(method._bank_features, dim=1)
    assert len(method._bank_features) == len(method._bank_predictions) == 20
    torch.testing.assert_close(method._bank_features, newest)


def test_gradients_of_prompts_and_classifier_are_cut_one_by_one() -> None:
    method = built(max_grad_norm=0.5)
    grads = tuple(torch.full_like(tensor, 3.0) for tensor in method._student.values())
    for name, grad in zip(method._student, method._clipped(grads), strict=True):
        assert name.startswith("heads.") or float(grad.norm()) == pytest.approx(0.5, rel=1e-4), name
        assert not name.startswith("heads.") or torch.equal(grad, torch.full_like(grad, 3.0))


def test_a_class_mask_is_no_trouble() -> None:
    model = small_vit()
    keep_classes(model, [1, 4, 7])
    method = build_method("dept-g", model, num_classes=3, batch_size=8, params=needed("dept-g"))
    for batch in stream(last=1):
        assert method.adapt(batch).shape == (len(batch), 3)


def test_training_learns_the_labels_and_leaves_the_model_alone() -> None:
    model, (batch,) = small_vit(), stream(count=1, size=16)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    training = PromptTraining(model, num_classes=10, steps=20, seed=0, prompts=4)
    labels = torch.arange(16) % 10
    first = F.cross_entropy(training.predict(batch), labels)
    losses = [training.step(batch, labels) for _ in range(20)]
    assert F.cross_entropy(training.predict(batch), labels) < first - 0.5
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    again = PromptTraining(model, num_classes=10, steps=20, seed=0, prompts=4)
    assert [again.step(batch, labels) for _ in range(3)] == losses[:3]


@pytest.mark.parametrize(
    ("model", "prompts", "said"),
    [
        (small_vit, None, r"dept-g needs prompts .*: `tta-bench train-source DATA --prompts` makes them"),
        (small_vit, "nowhere.safetensors", "nowhere.safetensors is no readable safetensors file"),
        (small_vit, "empty", "holds no prompts"),
        (lambda: small_vit(seed=4), "ours", "were trained for another model"),
        (lambda: small_vit(depth=9), "ours", "were trained for another model"),
        (small_resnet, "ours", "dept-g needs a timm VisionTransformer, ResNet is none"),
        (lambda: small_vit(global_pool="avg"), "ours", "does not classify by one"),
    ],
)
def test_what_cannot_work_is_one_line(model: Any, prompts: str | None, said: str, tmp_path: Path) -> None:
    if prompts == "empty":
        save_file({"x": torch.zeros(1)}, prompts := str(tmp_path / "empty.safetensors"))
    given = needed("dept-g") if prompts == "ours" else {"prompts": prompts}
    with pytest.raises(UserError, match=said):
        build_method("dept-g", model(), num_classes=10, batch_size=8, params=given)


def test_blocks_that_make_no_whole_stages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="10 blocks are no 4 stages of equal length"):
        prompts_for(small_vit(depth=10), tmp_path / "p.safetensors")


@pytest.mark.parametrize(
    ("params", "said"),
    [({"neighbours": 0}, "neighbours is 0"), ({"queue_size": 5}, "queue_size is 5"),
     ({"teacher_temperature": 0.0}, "teacher_temperature is 0.0")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        built(**params)


def first_images(images: Any, count: int) -> ArrayImages:
    return ArrayImages(images.read(np.arange(count)), images.labels[:count], images.ids[:count])


def test_the_command_trains_prompts_that_a_run_takes(
    cli: Cli, small_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean, out = digits.clean, tmp_path / "prompts.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(recipes.digits, "clean", lambda split: first_images(clean(split), 64))
        patch.setattr(recipes, "PROMPT_BATCH", 32)
        status, said, _ = cli("train-source", "digits", "--prompts", "--epochs", 1, "--out", out)
    assert status == 0
    assert "% on held-out clean images with these prompts; use it by --set dept-g.prompts=" in said.replace("\n", "")
    assert load_file(out)["prompts.0"].shape == (50, 64)
    words = ("--suite", small_suite, "--limit", 48, "--out", tmp_path / "run")
    status, said, _ = cli("run", *words, "--methods", "source,dept-g", "--set", f"dept-g.prompts={out}")
    assert status == 0, said
    assert "dept-g" in said


def test_a_run_without_prompts_says_which_command_makes_them(cli: Cli, small_suite: Path, tmp_path: Path) -> None:
    words = ("--suite", small_suite, "--limit", 32, "--out", tmp_path / "run")
    status, said, err = cli("run", *words, "--methods", "source,dept-g")
    assert status != 0
    assert "tta-bench train-source DATA --prompts" in " ".join((said + err).split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("digits", "--prompts", "tent"), "--prompts tent: expected a method that trains prompts: dept-g"),
        (("digits", "--prompts", "--out", "p.pt"), "expected a name that ends in .safetensors"),
        (("digits", "--model", "x"), "takes no --domain and no --model"),
    ],
)
def test_wrong_words_are_one_line(cli: Cli, words: tuple[str, ...], said: str) -> None:
    status, _, err = cli("train-source", *words)
    assert status != 0
    assert said in " ".join(err.split())


def test_prompts_that_were_trained_again_under_the_same_name_run_again(small_suite: Path, tmp_path: Path) -> None:
    """A file is known by its content: a record of other prompts must not pass for one of these."""
    model = models.load("digits-vit").fresh(torch.device("cpu"))
    words: dict[str, Any] = {"methods": ("dept-g",), "limit": 8, "tasks": ("brightness",)}
    path = tmp_path / "prompts.safetensors"
    overrides = {"dept-g": {"prompts": str(path)}}

    def run() -> tuple[str, bool]:
        asked = requests(small_suite, set=overrides, **words)
        store = Store.create(tmp_path / "run", "small")
        known = finished(asked, CPU, store)
        (record,) = run_left(asked, Binder(CPU), store, Watcher()).values()
        assert record.status == "done", record.reason
        return record.cell.key, bool(known)

    prompts_for(model, path, pixels=32, batches=1)
    first = run()
    assert first[1] is False
    assert run() == (first[0], True)
    prompts_for(model, path, pixels=32, batches=2)
    again = run()
    assert again[1] is False
    assert again[0] != first[0]
