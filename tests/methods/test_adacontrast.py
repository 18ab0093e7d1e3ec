"""What the traces of AdaContrast do not pin down."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.small import small_resnet, small_vit, stream
from tests.support.traces import Trace, golden_batches
from tta_bench import build_method
from tta_bench.errors import UserError
from tta_bench.measure.cost import CostCounter


def built(model: Any = None, **params: Any) -> Any:
    params = {"queue_size": 20, **params}
    return build_method("adacontrast", model or small_vit(), num_classes=10, batch_size=8, params=params)


@pytest.mark.parametrize("case", ["adacontrast", "adacontrast-no-neighbours"])
def test_the_bank_is_the_recorded_one(case: str) -> None:
    trace = Trace(case)
    method: Any = trace.build()
    sizes = []
    for batch in golden_batches():
        sizes.append(len(method._bank_features))
        method.adapt(batch)
    assert sizes == trace.meta["bank_size_per_batch"]
    recorded = trace.tensors("bank/")
    torch.testing.assert_close(method._bank_features, F.normalize(recorded["features"], dim=1), atol=1e-4, rtol=0)
    torch.testing.assert_close(method._bank_predictions, recorded["probabilities"], atol=1e-4, rtol=0)


def test_memory_has_a_bound_and_the_first_overwrite_hits_the_newest_batch() -> None:
    method, kept = built(lr=0.0), []
    for batch in stream(count=12):
        method.adapt(batch)
        kept.append(method._bank_features.clone())
    assert [len(bank) for bank in kept[:4]] == [8, 16, 24, 24]
    assert {len(bank) for bank in kept[3:]} == {24}  # 20, and up to a batch more
    assert torch.equal(kept[3][:16], kept[2][:16])
    assert not torch.equal(kept[3][16:], kept[2][16:])
    assert method._queue_features.shape == (20, 24)


def test_the_queue_is_a_ring() -> None:
    method = built(lr=0.0)
    start = method._queue_features.clone()
    changed = []
    for batch in stream(count=3):
        method.adapt(batch)
        changed.append((method._queue_features != start).any(1))
        start = method._queue_features.clone()
    expected = torch.zeros(3, 20, dtype=torch.bool)
    expected[0, :8] = expected[1, 8:16] = expected[2, 16:] = expected[2, :4] = True
    assert torch.equal(torch.stack(changed), expected)


def test_neighbours_are_asked_after_the_warm_up() -> None:
    method = built(warmup_samples=16, neighbours=3)
    asked = []
    for batch in stream(count=4):
        before = method._seen
        method.adapt(batch)
        asked.append(before >= 16)
        assert method._seen == min(before + 8, 16)
    assert asked == [False, False, True, True]


def test_a_pseudo_label_is_the_mean_prediction_of_the_nearest() -> None:
    method, (one, two) = built(lr=0.0, warmup_samples=8, neighbours=3), stream(count=2)
    method.views = lambda images, count: images.expand(count, *images.shape)
    method.adapt(one)
    model = small_vit()
    with torch.no_grad():
        bank, query = (F.normalize(model.forward_head(model.forward_features(x), pre_logits=True)) for x in (one, two))
        predictions = model(one).softmax(1)
    nearest = (query @ bank.T).topk(3).indices
    assert torch.equal(method._pseudo_labels(two), predictions[nearest].mean(1).argmax(1))


def test_an_empty_bank_is_not_searched() -> None:
    for batch in stream(count=2):
        assert built(warmup_samples=0).adapt(batch).isfinite().all()


def test_single_images_work() -> None:
    method = build_method(
        "adacontrast", small_vit(), num_classes=10, batch_size=1, params={"queue_size": 4, "warmup_samples": 2}
    )
    start = method.adapted_state()
    for image in stream(count=8, size=1):
        assert method.adapt(image).isfinite().all()
    after = method.adapted_state()
    assert any(not torch.equal(after[name], value) for name, value in start.items() if name.startswith("blocks."))


def test_classifier_class_token_and_positions_stay() -> None:
    model = small_vit()
    method = built(model, lr=0.1)
    before = {name: value.clone() for name, value in model.named_parameters()}
    for batch in stream(count=2):
        method.adapt(batch)
    moved = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert moved == set(before) - {"head.weight", "head.bias", "cls_token", "pos_embed"}
    assert moved == {name for name in method.adapted_parameters() if not name.startswith(("teacher.", "queue_"))}


def test_only_the_query_has_a_graph() -> None:
    method, (batch,) = built(), stream(count=1)
    with CostCounter(method.model) as counter:
        method.adapt(batch)
    assert (counter.sample_forwards, counter.sample_backwards) == (5 * 8, 8)


def test_masked_negatives_have_the_label_of_the_sample() -> None:
    method = built(pseudo_label_weight=0.0, diversity_weight=0.0, temperature=0.5)
    generator = torch.Generator().manual_seed(0)
    logits, features = torch.randn(4, 10, generator=generator), torch.randn(4, 24, generator=generator)
    keys, labels = F.normalize(torch.randn(4, 24, generator=generator), dim=1), torch.tensor([1, 2, 2, 3])
    query = F.normalize(features, dim=1)
    losses = []
    for i in range(4):
        others = method._queue_features[method._queue_labels != labels[i]]
        scores = torch.cat([(query[i] @ keys[i])[None], others @ query[i]]) / 0.5
        losses.append(-scores.log_softmax(0)[0])
    torch.testing.assert_close(method._loss(logits, features, keys, labels), torch.stack(losses).mean())
    method._queue_labels.fill_(2)  # nothing is left to contrast samples 1 and 2 with
    assert method._loss(logits, features, keys, labels).isfinite()


def test_batchnorm_trains_on_the_batch_and_predicts_by_running_statistics() -> None:
    model, (batch,) = small_resnet(), stream(count=1, pixels=32)
    method = built(model, lr=0.0)
    views: Tensor = method.views(batch, 3)
    method.views = lambda images, count: views
    logits = method.adapt(batch)
    expected = small_resnet().train()
    with torch.no_grad():
        expected(views[0]), expected(views[1])  # the weak view, then the query; the key is the teacher's
        torch.testing.assert_close(logits, expected.eval()(batch), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(method.predict(batch), logits)
    theirs = dict(expected.named_buffers())
    statistics = {name: value for name, value in method.adapted_state().items() if "running" in name}
    assert len(statistics) == 2 * sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    for name, value in statistics.items():
        torch.testing.assert_close(value, theirs[name])
    method.reset()
    start = dict(small_resnet().named_buffers())
    assert all(torch.equal(method.adapted_state()[name], start[name]) for name in statistics)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"queue_size": 7}, "queue_size is 7, expected at least the batch size, 8"),
        ({"neighbours": 0}, "neighbours is 0"),
        ({"temperature": 0.0}, "temperature is 0.0, expected a number above 0"),
        ({"augmentation": "moco-v1"}, "'moco-v2-light' or 'moco-v2'"),
    ],
)
def test_bad_settings_are_refused(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        built(**params)


def test_a_batch_that_does_not_fit_the_queue_is_refused() -> None:
    with pytest.raises(UserError, match="a batch of 24 images does not fit into queue_size 20"):
        built().adapt(stream(count=1, size=24)[0])


def test_a_model_without_a_linear_classifier_is_refused() -> None:
    model = small_vit(num_classes=0)
    with pytest.raises(UserError, match="adacontrast needs the features that enter one linear classifier"):
        build_method("adacontrast", model, num_classes=10)
