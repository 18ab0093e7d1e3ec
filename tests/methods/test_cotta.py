"""What the traces of CoTTA do not pin down."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from torch import Tensor
from tta_bench_methods._draws import Draws
from tta_bench_methods._weights import weights_and_biases

from tests.support.small import small_vit, stream
from tta_bench import Method, build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter


def built(model: Any = None, **params: Any) -> Any:
    return build_method("cotta", model or small_vit(), num_classes=10, batch_size=8, params=params)


def confidence(batch: Tensor) -> float:
    with torch.no_grad():
        return float(small_vit()(batch).softmax(1).amax(1).mean())


def counts(method: Method, batch: Tensor) -> tuple[int, int]:
    with CostCounter(method.model) as counter:
        method.adapt(batch)
    return counter.sample_forwards, counter.sample_backwards


@pytest.mark.parametrize("factor", [0.3, 0.9, 0.999, 1.001, 1.1, 3.0])
def test_views_replace_the_batch_exactly_where_the_source_model_is_unsure(factor: float) -> None:
    for batch in stream(count=3, last=5):
        method = built(anchor_threshold=factor * confidence(batch), augmentations=2)
        asked: list[int] = []
        method.views = lambda images, count, asked=asked: asked.append(count) or images.expand(count, *images.shape)
        method.adapt(batch)
        assert asked == ([2] if factor > 1 else [])


@torch.no_grad()
def test_the_source_model_is_asked_what_it_was_before_adapting() -> None:
    batch = stream(count=1)[0]
    method = built(lr=0.5, anchor_threshold=1.001 * confidence(batch), restore_probability=0.0)
    for _ in range(3):
        method.adapt(batch)  # no longer anything like the source
    assert method._source_is_unsure(batch)
    method.anchor_threshold = 0.999 * confidence(batch)
    assert not method._source_is_unsure(batch)


def test_no_pass_or_graph_is_computed_without_use() -> None:
    batch = stream(count=1)[0]
    unsure = built(anchor_threshold=2.0, augmentations=4)
    assert counts(unsure, batch) == (8 + 4 * 8 + 8, 8)  # source model, views, student
    sure = built(anchor_threshold=0.1 * confidence(batch))
    assert counts(sure, batch) == (2 + 8 + 8, 8)  # a quarter is sure enough for the whole
    assert counts(built(anchor_threshold=0.0), batch) == (8 + 8, 8)


def test_single_images_have_their_views_in_shared_passes() -> None:
    method, image = built(anchor_threshold=2.0, augmentations=32), stream(count=1, size=1)[0]
    sizes: list[int] = []
    method.model.patch_embed.register_forward_pre_hook(lambda module, args: sizes.append(len(args[0])))
    method.adapt(image)
    assert sizes == [1, 16, 16, 1]


def test_predictions_are_the_teachers() -> None:
    model, batch = small_vit(), stream(count=1)[0]
    method = built(model, lr=0.1, teacher_momentum=0.5, restore_probability=0.0)
    method.adapt(batch)
    other = small_vit()
    state = {k.removeprefix("teacher."): v for k, v in method.adapted_state().items() if k.startswith("teacher.")}
    other.load_state_dict(state, strict=False)
    with torch.no_grad():
        torch.testing.assert_close(method.predict(batch), other(batch))
        assert not torch.allclose(method.predict(batch), model(batch), atol=1e-3)


def test_a_teacher_with_full_momentum_stays_the_source_model() -> None:
    batch = stream(count=1)[0]
    method = built(lr=0.1, teacher_momentum=1.0, anchor_threshold=0.0)
    first = method.adapt(batch)
    assert torch.equal(method.adapt(batch), first)


def test_class_token_and_positions_do_not_adapt() -> None:
    names = set(built().adapted_parameters())
    parameters = {name for name, _ in small_vit().named_parameters()}
    assert {name for name in names if not name.startswith("teacher.")} == parameters - {"cls_token", "pos_embed"}


def test_what_adapts_on_vit_base() -> None:
    with torch.device("meta"):
        found = weights_and_biases(timm.create_model("vit_base_patch16_224"))
    assert len(found) == 150
    assert sum(tensor.numel() for tensor in found.values()) == 86_415_592


def test_the_snapshot_is_one_model_not_two() -> None:
    start = built().snapshot
    for name, tensor in start.items():
        assert tensor.data_ptr() == start[name.removeprefix("teacher.")].data_ptr()


def test_restored_entries_are_the_sources_and_momentum_stays() -> None:
    one, two = stream(count=2)
    method = built(lr=0.05, restore_probability=0.3, anchor_threshold=0.0)
    free = built(lr=0.05, restore_probability=0.0, anchor_threshold=0.0)
    for each in (method, free):
        each.adapt(one)
    source, mine, others = method.snapshot, method.adapted_state(), free.adapted_state()
    shares = []
    for name in method._student:
        restored = mine[name] == source[name]
        assert torch.equal(mine[name], torch.where(restored, source[name], others[name])), name
        shares.append(restored.float().flatten())
        buffers = [each._sgd._optimizer.state[each._student[name]]["momentum_buffer"] for each in (method, free)]
        assert torch.equal(*buffers), name
    assert float(torch.cat(shares).mean()) == pytest.approx(0.3, abs=0.02)
    for name, tensor in method._teacher.values.items():
        assert torch.equal(tensor, free._teacher.values[name]), "the teacher follows before weights are restored"
    assert method.adapt(two).isfinite().all()


def test_masks_are_drawn_apart_for_each_weight_and_batch() -> None:
    method = built(restore_probability=0.5)
    one, two = (method.restore_mask(torch.empty(1000)) for _ in range(2))
    assert 400 < int(one.sum()) < 600
    assert 400 < int((one == two).sum()) < 600


def test_views_share_one_draw_over_the_batch() -> None:
    method, (batch,) = built(), stream(count=1)
    batch = batch[:1].expand(4, -1, -1, -1)
    views = method.views(batch, 3)
    assert views.shape == (3, 4, 3, 16, 16)
    for view in views:
        assert float((view - view[:1]).abs().max()) < 0.06  # noise of 0.005
    assert float((views[0] - views[1]).abs().max()) > 0.1


@pytest.mark.parametrize(("loss", "halves"), [("cross-entropy", (1.0, 0.0)), ("symmetric", (0.5, 0.5))])
def test_losses(loss: str, halves: tuple[float, float]) -> None:
    generator = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 4, 10, generator=generator)
    p, q = student.softmax(1), teacher.softmax(1)
    expected = halves[0] * -(q * p.log()).sum(1) + halves[1] * -(p * q.log()).sum(1)
    torch.testing.assert_close(built(loss=loss)._losses(student, teacher), expected)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"augmentations": 0}, "augmentations is 0, expected 1 or more; anchor_threshold 0 asks for none"),
        ({"restore_probability": 1.5}, r"restore_probability is 1.5, expected 0 to 1"),
        ({"teacher_momentum": -0.1}, r"teacher_momentum is -0.1, expected 0"),
        ({"loss": "entropy"}, "'symmetric' or 'cross-entropy'"),
    ],
)
def test_bad_settings_are_refused(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(**params)


def test_large_draws_leave_alone_the_numbers_that_steer() -> None:
    """On a GPU noise and restored weights come from its own generator: on a CPU they may not move the views either."""

    def colours(**params: Any) -> list[float]:
        method, found = built(augmentations=2, anchor_threshold=2.0, **params), []
        uniform = method._draws.uniform
        method._draws.uniform = lambda low, high: found.append(drawn := uniform(low, high)) or drawn
        for batch in stream(count=2):
            method.adapt(batch)
        return found

    without_restoring = colours(restore_probability=0.0)
    assert len(without_restoring) > 20
    assert colours(restore_probability=0.5) == without_restoring
    draws = Draws(3)
    noise = torch.rand(4, generator=draws.on(torch.device("cpu")))
    assert not torch.equal(noise, torch.rand(4, generator=draws.cpu))  # nor are they the same numbers
