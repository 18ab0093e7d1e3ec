"""What the traces of RMT do not pin down: prototypes, the warm-up as a start, source images that are kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from tta_bench_methods._contrast import contrast
from tta_bench_methods._replay import Replay, kept

from tests.support.small import small_resnet, small_vit, stream
from tests.support.traces import Trace
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter

LABELS = torch.arange(8)


def built(model: Any = None, **params: Any) -> Any:
    return build_method("rmt", model or small_vit(), num_classes=10, batch_size=8, params=params)


def prepared(*, model: Any = None, pixels: int = 16, batches: int = 2, **params: Any) -> Any:
    method = built(model, **params)
    method.prepare(stream(count=batches, seed=7, pixels=pixels), [LABELS] * batches)
    return method


@pytest.mark.parametrize("case", ["rmt", "rmt-source-free", "rmt-bn"])
def test_prototypes_and_warm_weights_are_the_recorded_ones(case: str) -> None:
    trace = Trace(case)
    method = trace.build()
    recorded, state = trace.tensors("extra/"), method.adapted_state()
    torch.testing.assert_close(method.prepared_state()["prototypes"], recorded.pop("prototypes"), atol=1e-4, rtol=0)
    assert recorded
    for name, value in recorded.items():
        torch.testing.assert_close(state[name.removeprefix("warmed.")], value, atol=1e-4, rtol=0)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_reset_returns_to_the_warm_start_with_its_momentum(optimizer: str) -> None:
    method, source = prepared(optimizer=optimizer), small_vit().state_dict()
    warm = method.adapted_state()
    assert not torch.equal(warm["norm.weight"], source["norm.weight"])
    first = [method.adapt(batch) for batch in stream()]
    method.reset()
    assert all(torch.equal(value, warm[name]) for name, value in method.adapted_state().items())
    assert all(torch.equal(*pair) for pair in zip([method.adapt(batch) for batch in stream()], first, strict=True))


def test_without_a_warm_up_the_source_weights_stay() -> None:
    method = prepared(warmup_steps=0)
    assert torch.equal(method.model.norm.weight, small_vit().norm.weight)
    assert not any(name.startswith(("optimizer", "warmed", "teacher")) for name in method.prepared_state())


@pytest.mark.parametrize(("given", "steps"), [(None, 3), (0, 0), (5, 5)])
def test_the_warm_up_is_one_pass_unless_set(given: int | None, steps: int) -> None:
    method = built(warmup_steps=given)
    with CostCounter(method.model) as counted:
        method.prepare(stream(count=3, seed=7), [LABELS] * 3)
    assert counted.optimizer_steps == steps
    assert counted.sample_forwards == 8 * (3 + 2 * steps)


def test_source_images_go_on_where_the_warm_up_stopped() -> None:
    batches = stream(count=3, seed=7)
    method = prepared(batches=3, warmup_steps=4)
    seen: list[Tensor] = []
    method.augment = lambda images: images
    method.model.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()))
    for batch in stream(count=3):
        method.adapt(batch)
    replayed = [images for images in seen if any(torch.equal(images, batch) for batch in batches)]
    assert len(replayed) == 3
    assert all(torch.equal(images, batches[i]) for images, i in zip(replayed, (1, 2, 0), strict=True))


@pytest.mark.parametrize(("params", "forwards", "backwards"), [({}, 32, 24), ({"source_weight": 0.0}, 24, 16)])
def test_passes_are_counted(params: dict[str, Any], forwards: int, backwards: int) -> None:
    method, (batch,) = prepared(**params), stream(count=1)
    with CostCounter(method.model) as counted:
        method.adapt(batch)
    assert (counted.sample_forwards, counted.sample_backwards, counted.optimizer_steps) == (forwards, backwards, 1)


def test_source_images_are_kept_only_to_be_replayed() -> None:
    assert len(prepared().prepared_state()["source_images"]) == 16
    assert "source_images" not in prepared(source_weight=0.0).prepared_state()


def test_images_made_of_bytes_are_kept_as_bytes() -> None:
    pixels = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
    images = pixels.float().div(255)
    assert torch.equal(kept(images), pixels)
    other = torch.rand(2, 3, 8, 8)
    assert torch.equal(kept(other), other)
    replay = Replay.of([kept(images), kept(other)], [torch.arange(4), torch.arange(2)])
    for turn, expected in ((0, images), (1, other), (2, images)):
        assert torch.equal(replay.turn(turn)[0], expected)


def test_a_class_without_source_images_is_nobodys_nearest() -> None:
    """As released, its prototype is NaN, and so is everything after the first batch."""
    method = built()
    method.prepare(stream(count=2, seed=7), [torch.zeros(8, dtype=torch.int64)] * 2)
    for batch in stream():
        assert method.adapt(batch).isfinite().all()
    assert all(tensor.isfinite().all() for tensor in method.adapted_parameters().values())
    counts = method.prepared_state()["class_counts"]
    assert counts.tolist() == [16] + [0] * 9


def test_missing_labels_and_labels_that_do_not_fit_are_refused() -> None:
    batches = stream(count=2, seed=7)
    with pytest.raises(UserError, match=r"rmt: prepare\(\) got no source labels, which say whose prototype"):
        built().prepare(batches)
    with pytest.raises(UserError, match="rmt: source batch 0 has labels outside of 0 to 9"):
        built().prepare(batches, [LABELS + 5] * 2)
    with pytest.raises(UserError, match=r"rmt: prepare\(\) got labels for 1 only"):
        built().prepare(batches, [LABELS])
    with pytest.raises(UserError, match=r"rmt: prepare\(\) got no source batches to take prototypes from"):
        built().prepare([], [])


def test_an_augmentation_that_changes_the_shape_is_refused() -> None:
    method = prepared()
    method.augment = lambda images: images[:4]
    with pytest.raises(
        UserError, match=r"rmt: augment\(\) made \(4, 3, 16, 16\) of \(8, 3, 16, 16\), expected that shape"
    ):
        method.adapt(stream(count=1)[0])


def test_the_answer_is_the_sum_of_student_and_teacher() -> None:
    method, (batch,) = prepared(teacher_momentum=0.5), stream(count=1)
    with torch.no_grad():
        student = method.model(batch)
        with method._teacher.in_place():
            teacher = method.model(batch)
    assert not torch.allclose(student, teacher, atol=1e-4)
    torch.testing.assert_close(method.adapt(batch), student + teacher)


def test_batchnorm_normalises_each_kind_of_image_by_itself() -> None:
    method = prepared(model=small_resnet(), pixels=32)
    for batch in [*stream(pixels=32, last=3), *stream(count=2, size=1, pixels=32)]:
        assert method.adapt(batch).isfinite().all()


def test_contrast_against_the_formula() -> None:
    views = torch.randn(3, 4, 5)
    rows = torch.nn.functional.normalize(views.flatten(0, 1), dim=1)
    losses = []
    for i, row in enumerate(rows):
        others = [j for j in range(12) if j != i]
        total = torch.logsumexp(torch.stack([row @ rows[j] for j in others]) / 0.3, 0)
        losses += [total - row @ rows[j] / 0.3 for j in others if j % 4 == i % 4]
    torch.testing.assert_close(contrast(views, 0.3), torch.stack(losses).mean())
