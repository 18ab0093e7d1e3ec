"""RoTTA and SoTTA: what their memories hold, when they learn, and what a pass over them costs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from tta_bench_methods._memory import Memory
from tta_bench_methods._running import OwnStatistics

from tests.support.small import small_resnet, small_vit, stream
from tests.support.traces import Trace, golden_batches
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter

CASES = [f"{name}{kind}" for name in ("rotta", "sotta") for kind in ("", "-bn", "-full", "-bn-full")]
SURE = {"sotta": {"confidence_threshold": 0.0}, "rotta": {}}
both = pytest.mark.parametrize("name", ["rotta", "sotta"])


def built(name: str, model: Any = None, **params: Any) -> Any:
    given = {**SURE[name], **params}
    return build_method(name, model or small_vit(), num_classes=10, batch_size=8, params=given)


def remembered(method: Any) -> list[Tensor]:
    return [getattr(item, "image", item) for item in method._memory.items()]


@pytest.mark.parametrize("case", CASES)
def test_the_memory_holds_the_recorded_images(case: str) -> None:
    trace = Trace(case)
    method: Any = trace.build()
    for batch in golden_batches():
        method.adapt(batch)
    images = torch.cat(golden_batches())
    expected = [images[i] for i in trace.tensors("extra/")["memory_index"].tolist()]
    assert len(expected) == len(method._memory)
    assert all(torch.equal(*pair) for pair in zip(remembered(method), expected, strict=True))


@pytest.mark.parametrize("case", [case for case in CASES if "-bn" in case])
def test_statistics_end_where_the_recorded_ones_do(case: str) -> None:
    trace = Trace(case)
    method: Any = trace.build()
    source = {name: value.clone() for name, value in method.model.state_dict().items() if "running" in name}
    for batch in golden_batches():
        method.adapt(batch)
    sets = {"": method._of_student, "teacher.": method._of_teacher} if "rotta" in case else {"": method._statistics}
    for prefix, statistics in sets.items():
        for name, before in source.items():
            assert torch.equal(method.model.state_dict()[name], before), "the model keeps its own"
        with statistics.lent():
            for name in source:
                now, expected = method.model.state_dict()[name], trace.tensors("extra/")[prefix + name]
                torch.testing.assert_close(now, expected, atol=1e-4, rtol=0)


@both
def test_images_count_and_batches_do_not(name: str) -> None:
    """The memory and the weights after 24 images are the same, however they come; an update falls inside a batch."""
    images, ends = torch.cat(stream(count=3)), []
    for size in (24, 12, 4, 1) if name == "sotta" else (4, 2, 1):
        method = built(name, update_frequency=4, memory_size=6, lr=0.01)
        logits = torch.cat([method.adapt(part) for part in images.split(size)])
        ends.append({**method.adapted_state(), "logits": logits, "memory": torch.stack(remembered(method))})
    for end in ends[1:]:
        for key, value in end.items():
            torch.testing.assert_close(value, ends[0][key], atol=1e-5, rtol=1e-4, msg=key)


def test_rotta_answers_a_batch_with_the_teacher_from_its_start() -> None:
    images = stream(count=1)[0]
    method = built("rotta", update_frequency=2, lr=0.1, teacher_momentum=0.0)
    with torch.no_grad():
        before = method.model(images)
    torch.testing.assert_close(method.adapt(images), before)
    assert not torch.allclose(method.adapt(images), before, atol=1e-3)


def test_sotta_answers_each_window_with_the_weights_from_its_start() -> None:
    images = stream(count=1)[0]
    method = built("sotta", update_frequency=4, lr=0.1)
    with torch.no_grad():
        before = method.model(images)
    logits = method.adapt(images)
    torch.testing.assert_close(logits[:4], before[:4])
    assert not torch.allclose(logits[4:], before[4:], atol=1e-3)


def test_passes_of_updates_inside_a_batch_are_counted() -> None:
    (batch,) = stream(count=1)
    sotta, rotta = built("sotta", update_frequency=4, memory_size=3), built("rotta", update_frequency=4, memory_size=3)
    with CostCounter(sotta.model) as counted:
        sotta.adapt(batch)
    assert (counted.sample_forwards, counted.sample_backwards, counted.optimizer_steps) == (8 + 4 * 3, 4 * 3, 2)
    labels = rotta.predict(batch).argmax(1).tolist()
    first, second = (min(3, len(set(labels[:end]))) for end in (4, 8))  # 0.3 places per class: one image at most
    with CostCounter(rotta.model) as counted:
        rotta.adapt(batch)
    # The teacher has seen the memory of the first update in this batch, and looks again after its first step.
    forwards = 8 + first + second + second
    assert (counted.sample_forwards, counted.sample_backwards, counted.optimizer_steps) == (
        forwards,
        first + second,
        2,
    )


@both
def test_nothing_is_learned_before_the_first_window_ends(name: str) -> None:
    method = built(name, update_frequency=9)
    start = method.adapted_state()
    (batch,) = stream(count=1)
    method.adapt(batch)
    assert all(torch.equal(value, start[key]) for key, value in method.adapted_state().items())
    method.adapt(batch[:1])
    assert any(not torch.equal(value, start[key]) for key, value in method.adapted_state().items())


def test_sotta_that_is_never_confident_is_the_source_model() -> None:
    method = built("sotta", small_resnet(), confidence_threshold=1.0, update_frequency=2)
    batches = stream(pixels=32)
    with torch.no_grad():
        expected = [small_resnet()(batch) for batch in batches]
    for batch, logits in zip(batches, expected, strict=True):
        torch.testing.assert_close(method.adapt(batch), logits)


@pytest.mark.parametrize(("classes", "threshold"), [(10, 0.99), (100, 0.66), (1000, 0.33), (2, 0.99), (50_000, 0.0)])
def test_thresholds_of_sotta_are_the_published_ones(classes: int, threshold: float) -> None:
    method: Any = build_method("sotta", small_vit(num_classes=classes), num_classes=classes)
    assert method.confidence_threshold == pytest.approx(threshold)


@both
def test_a_memory_of_one_image_works_where_batchnorm_sees_one_pixel(name: str) -> None:
    method = built(name, small_resnet(), memory_size=1, update_frequency=1, lr=0.01)
    for image in stream(count=1, pixels=32)[0].split(1):
        assert method.adapt(image).isfinite().all()
    assert all(tensor.isfinite().all() for tensor in method.adapted_parameters().values())


def test_an_augmentation_that_changes_the_shape_is_refused() -> None:
    method = built("rotta", update_frequency=8)
    method.augment = lambda images: images[..., :8]
    with pytest.raises(
        UserError, match=r"rotta: augment\(\) made \(\d, 3, 16, 8\) of \(\d, 3, 16, 16\), expected that"
    ):
        method.adapt(stream(count=1)[0])


def test_room_is_made_in_the_largest_class() -> None:
    memory: Memory[str] = Memory(5, 3)
    memory.classes = [["a", "b"], ["c"], ["d", "e"]]
    picked: list[int] = []

    def last(count: int) -> int:
        picked.append(count)
        return count - 1

    memory.make_room(1, last)  # another class: first the class, then the item
    assert (memory.classes, picked) == ([["a", "b"], ["c"], ["d"]], [2, 2])
    memory.make_room(0, last)  # its own
    assert (memory.classes, picked) == ([["a"], ["c"], ["d"]], [2, 2, 2])


def test_mixed_statistics_have_the_gradient_of_the_batch() -> None:
    """The layer's own formula, written out with statistics as part of the graph."""
    norm = torch.nn.BatchNorm2d(3).eval()
    norm.load_state_dict({**norm.state_dict(), "running_mean": torch.rand(3), "running_var": torch.rand(3) + 0.5})
    source, values = {k: v.clone() for k, v in norm.state_dict().items()}, torch.rand(4, 3, 2, 2, requires_grad=True)
    mean = 0.7 * source["running_mean"] + 0.3 * values.mean((0, 2, 3))
    var = 0.7 * source["running_var"] + 0.3 * values.var((0, 2, 3), correction=0)
    expected = (values - mean[:, None, None]) / (var[:, None, None] + norm.eps).sqrt()
    statistics = OwnStatistics(norm)
    with statistics.mixing(0.3):
        found = norm(values)
    torch.testing.assert_close(found, expected)
    weights = torch.rand_like(found)
    (mine,), (right,) = (torch.autograd.grad((out * weights).sum(), values) for out in (found, expected))
    torch.testing.assert_close(mine, right)
    assert torch.equal(norm.running_mean, source["running_mean"])
    with statistics.lent():
        torch.testing.assert_close(norm.running_mean, mean.detach())
