"""Golden settings on models that no trace was recorded on, against the authors' steps written out (`released.py`)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests import released
from tests.small import stir
from tests.traces import SETTINGS, Trace, seams
from tta_bench import build_method

SHAPES: dict[str, dict[str, Any]] = {
    "few classes": {"embed_dim": 32, "num_heads": 2, "num_classes": 4},
    "many classes, wide": {"embed_dim": 40, "num_heads": 5, "num_classes": 37, "mlp_ratio": 3},
}
NOMINAL = 8
pytestmark = pytest.mark.slow  # the traces are the fast guard


def network(shape: str) -> Any:
    """Stirred norms and a sharp head, so that some samples are sure and others are not."""
    torch.manual_seed(3)
    model = VisionTransformer(img_size=16, patch_size=4, depth=12, **SHAPES[shape])
    stir(model)
    with torch.no_grad():
        model.head.weight.normal_(0, 0.5)
    return model.eval()


def batches() -> list[Tensor]:
    draw = torch.Generator().manual_seed(5)
    return [torch.rand(count, 3, 16, 16, generator=draw) for count in (NOMINAL, NOMINAL, NOMINAL, 5)]


def median(values: list[Tensor]) -> float:
    """Between two values, so that rounding moves nothing across."""
    found = torch.cat(values).sort().values
    middle = len(found) // 2
    return float(found[middle - 1 : middle + 1].mean())


def fitted(case: str, model: Any) -> dict[str, Any]:
    """The settings of a case, with thresholds that split this stream in two."""
    meta = Trace(case).meta
    found = {key: meta[key] for key in SETTINGS[meta["method"]] if key in meta}
    with torch.no_grad():
        logits = [model(batch) for batch in batches()]
    if "entropy_threshold" in found:
        found["entropy_threshold"] = median([released.entropy(one) for one in logits])
    if "plpd_threshold" in found:
        found["plpd_threshold"] = 0.02
    if found.get("anchor_threshold"):
        found["anchor_threshold"] = median([one.softmax(1).amax(1).mean()[None] for one in logits])
    return found


CASES = [
    *("cotta", "cotta-augmented", "cotta-restore", "memo-sgd", "memo-adamw", "memo-adamw-reset", "adacontrast"),
    *("adacontrast-no-neighbours", "rdumb", "rdumb-reset-2", "deyo", "roid", "cmf", "cmf-filter"),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_another_model_gets_the_released_steps(case: str, shape: str) -> None:
    meta, model = Trace(case).meta, network(shape)
    name, settings, drawn = meta["method"], fitted(case, model), seams(meta)
    literal, given = copy.deepcopy(model), dict(settings)
    first: dict[str, Tensor] = {}
    if name == "adacontrast":
        settings["queue_size"] = 64
        draw = torch.Generator().manual_seed(7)
        features = F.normalize(torch.randn(64, model.embed_dim, generator=draw), dim=1)
        labels = torch.randint(model.num_classes, (64,), generator=draw)
        first = {"queue_features": features, "queue_labels": labels}
        given |= {"queue": features, "queued": labels}
    if name in ("cotta", "memo", "adacontrast"):
        given["views"] = drawn.get("views")
    if name == "cotta":
        given["mask"] = drawn.get("restore_mask", lambda tensor: torch.zeros_like(tensor, dtype=torch.bool))
    if name in ("roid", "cmf"):
        given |= {"augment": drawn["augment"], "batch_size": NOMINAL}
    method = build_method(
        name, model, num_classes=model.num_classes, batch_size=NOMINAL, params=settings, initial_state=first
    )
    for seam, replacement in drawn.items():
        setattr(method, seam, replacement)
    run = released.roid if name == "cmf" else getattr(released, name)
    expected = run(literal, batches(), **given)
    for i, batch in enumerate(batches()):
        torch.testing.assert_close(method.adapt(batch), expected[i], atol=1e-4, rtol=0)
