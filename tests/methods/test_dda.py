"""DDA: its sampler against the formulas, the published layout of weights, and drawings that are kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from tests.support.guided import GuidedUNet, small_unet
from tests.support.small import small_resnet, small_vit, stream, tiny
from tta_bench import build_method
from tta_bench.errors import UserError

diffusers = pytest.importorskip("diffusers")

from tta_bench_methods._guided_diffusion import converted  # noqa: E402
from tta_bench_methods._pictures import name_of  # noqa: E402

QUICK = {"steps": 10, "start": 2, "size": 8}


def quick_unet() -> GuidedUNet:
    return small_unet(per_level=1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Weights in the published layout."""
    path = tmp_path_factory.mktemp("dda") / "unet.pt"
    torch.save(quick_unet().state_dict(), path)
    return str(path)


def built(model: Any = None, **params: Any) -> Any:
    params = {**QUICK, **params}
    return build_method("dda", small_vit() if model is None else model, num_classes=10, batch_size=8, params=params)


@pytest.mark.parametrize(
    ("widths", "per_level", "attends"),
    [((32, 64), 2, (False, True)), ((64, 64, 128), 1, (True, False, True)), ((32, 64), 3, (False, False))],
)
def test_converted_weights_compute_the_same(widths: Any, per_level: int, attends: Any) -> None:
    theirs = small_unet(widths, per_level, attends)
    config, state = converted(theirs.state_dict(), "test")
    ours = diffusers.UNet2DModel(**config).eval()
    ours.load_state_dict(state)
    images, steps = stream(count=1, size=2)[0], torch.tensor([10, 500])
    with torch.no_grad():
        torch.testing.assert_close(ours(images, steps).sample, theirs(images, steps), atol=1e-4, rtol=1e-4)


def test_the_published_checkpoint_fits() -> None:
    """Of its size, 552.8 M weights, without their memory."""
    with torch.device("meta"):
        theirs = GuidedUNet((256, 256, 512, 512, 1024, 1024), 2, (False, False, False, True, True, True))
        config, state = converted(theirs.state_dict(), "test")
        ours = diffusers.UNet2DModel(**config).state_dict()
    assert {name: tensor.shape for name, tensor in state.items()} == {name: t.shape for name, t in ours.items()}
    assert sum(tensor.numel() for tensor in ours.values()) == 552_814_086
    assert config["sample_size"] == 256


def test_drawings_follow_the_published_sampler(checkpoint: str) -> None:
    images, seeds = stream(count=1, size=3)[0], [4, 5, 6]
    method = built(unet=checkpoint, steps=100, start=6, scale=6.0, down=4, size=16)
    expected = published_sampler(quick_unet(), images, seeds, steps=100, start=6, scale=6.0, down=4)
    found = method._redraw(images, seeds)
    assert (found - expected).abs().max() <= 1.01 / 255  # both are rounded to bytes
    assert (found != expected).float().mean() < 0.01
    unguided = published_sampler(quick_unet(), images, seeds, steps=100, start=6, scale=0.0, down=4)
    assert (found - unguided).abs().mean() > 1 / 255


def published_sampler(
    unet: GuidedUNet, images: Tensor, seeds: list[int], *, steps: int, start: int, scale: float, down: int
) -> Tensor:
    """Ancestral sampling with learned variances on a respaced schedule, written from the formulas."""
    bars = (1 - torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)).cumprod(0)
    times = [round(i * 999 / (steps - 1)) for i in range(steps)]
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]

    def noise() -> Tensor:
        return torch.cat([torch.randn(1, *images.shape[1:], generator=draw) for draw in draws])

    def coarse(x: Tensor) -> Tensor:
        size = x.shape[-1]
        small = F.interpolate(x, (size // down, size // down), mode="bicubic", antialias=True)
        return F.interpolate(small, (size, size), mode="bicubic", antialias=True)

    given = images * 2 - 1
    bar = float(bars[times[start]])
    x = bar**0.5 * given + (1 - bar) ** 0.5 * noise()
    for i in reversed(range(start)):
        bar, before = float(bars[times[i]]), float(bars[times[i - 1]]) if i else 1.0
        beta = 1 - bar / before
        x = x.detach().requires_grad_()
        eps, v = unet(x, torch.full((len(x),), times[i])).chunk(2, dim=1)
        clean = ((x - (1 - bar) ** 0.5 * eps) / bar**0.5).clamp(-1, 1)
        mean = before**0.5 * beta / (1 - bar) * clean + (bar / before) ** 0.5 * (1 - before) / (1 - bar) * x
        (pull,) = torch.autograd.grad((coarse(given) - coarse(clean)).norm(), x, retain_graph=True)
        if i:
            smallest, share = np.log(beta * (1 - before) / (1 - bar)), (v + 1) / 2
            mean = mean + (0.5 * (share * np.log(beta) + (1 - share) * smallest)).exp() * noise()
        x = mean - scale * pull
    return (x.detach() / 2 + 0.5).clamp(0, 1).mul(255).round().div(255)


@pytest.mark.parametrize("ensemble", ["probabilities", "logits", "none"])
def test_the_answer_is_the_sum_over_image_and_drawing(checkpoint: str, ensemble: str) -> None:
    method, (batch,) = built(unet=checkpoint, ensemble=ensemble), stream(count=1)
    logits, drawing = method.adapt(batch), method.redrawn(batch)
    assert drawing.shape == batch.shape
    assert (drawing - batch).abs().mean() > 0.01
    with torch.no_grad():
        one, other = method.model(batch), method.model(drawing)
    if ensemble == "probabilities":
        torch.testing.assert_close(logits.exp(), (one.softmax(1) + other.softmax(1)) / 2)
    else:
        torch.testing.assert_close(logits, one + other if ensemble == "logits" else other)
    assert torch.equal(method.predict(batch), logits)


def test_a_drawing_depends_on_image_and_seed_but_not_on_its_place(checkpoint: str) -> None:
    (batch,) = stream(count=1, size=4)
    alone = built(unet=checkpoint, images_at_once=1)
    first = alone.redrawn(batch)
    assert torch.equal(alone.redrawn(batch.flip(0)).flip(0), first)
    assert torch.equal(torch.cat([alone.redrawn(image[None]) for image in batch]), first)
    assert not torch.equal(built(unet=checkpoint, images_at_once=1, seed=1).redrawn(batch), first)
    assert not torch.equal(built(unet=checkpoint, images_at_once=4).redrawn(batch), first), "guidance is shared"


def test_drawings_are_kept_found_again_and_replace_the_sampler(checkpoint: str, tmp_path: Path) -> None:
    batches, folder = stream(count=2), str(tmp_path / "drawn")
    drawing = built(unet=checkpoint, generated=folder)
    first = [drawing.adapt(batch) for batch in batches]
    files = sorted(Path(folder).rglob("*.png"))
    assert len(files) == 16
    assert [logits.tolist() for logits in first] == [built(unet=checkpoint).adapt(batch).tolist() for batch in batches]
    drawing._redraw = None  # all are there
    found = built(generated=folder)
    for method in (drawing, found):
        shuffled = torch.cat(batches).flip(0)
        torch.testing.assert_close(method.adapt(shuffled).flip(0), torch.cat(first))
    assert sorted(Path(folder).rglob("*.png")) == files


def test_a_drawing_of_any_size_made_elsewhere_is_taken(tmp_path: Path) -> None:
    (batch,) = stream(count=1, size=2)
    for image in batch:
        name = name_of(image)
        (tmp_path / name[:2]).mkdir(exist_ok=True)
        Image.new("RGB", (20, 20), (255, 0, 51)).save(tmp_path / name[:2] / f"{name}.png")
    drawn = built(generated=str(tmp_path)).redrawn(batch)
    torch.testing.assert_close(drawn[0, :, 3, 5], torch.tensor([1.0, 0.0, 0.2]))
    assert drawn.shape == batch.shape


def test_an_image_without_a_drawing_is_named_with_the_way_out(checkpoint: str, tmp_path: Path) -> None:
    one, two = stream(count=2, size=2)
    folder = str(tmp_path / "drawn")
    built(unet=checkpoint, generated=folder).adapt(one)
    with pytest.raises(
        UserError, match=rf"has no drawing of 2 of 2 images .*{name_of(two[0])}.png.*dda.unet set as well"
    ):
        built(generated=folder).adapt(two)


def test_drawings_made_in_another_way_are_refused(checkpoint: str, tmp_path: Path) -> None:
    folder, other = str(tmp_path / "drawn"), tmp_path / "other.pt"
    built(unet=checkpoint, generated=folder)
    torch.save(small_unet().state_dict(), other)
    with pytest.raises(UserError, match="were drawn with scale 6.0, not 1.0: set it to that, or choose another folder"):
        built(generated=folder, scale=1.0)
    with pytest.raises(UserError, match="were drawn with unet"):
        built(unet=str(other), generated=folder)


def test_a_folder_that_cannot_be_used_is_refused_before_the_first_batch(checkpoint: str, tmp_path: Path) -> None:
    folder = tmp_path / "drawn"
    folder.mkdir()
    with pytest.raises(UserError, match="holds no drawings; make them by a run with dda.unet set as well"):
        built(generated=str(folder))
    built(unet=checkpoint, generated=str(folder)).adapt(stream(count=1, size=1)[0])
    for damage in ("{", "[]"):
        (folder / "drawn.json").write_text(damage)
        with pytest.raises(UserError, match=r"drawn\.json is damaged: delete it"):
            built(generated=str(folder))


def test_a_damaged_drawing_is_named(checkpoint: str, tmp_path: Path) -> None:
    (batch,) = stream(count=1, size=2)
    built(unet=checkpoint, generated=str(tmp_path)).adapt(batch)
    damaged = next(tmp_path.rglob("*.png"))
    damaged.write_bytes(damaged.read_bytes()[:40])
    with pytest.raises(UserError, match=f"{damaged.name} is no readable image: delete it"):
        built(generated=str(tmp_path)).adapt(batch)


@pytest.mark.parametrize(
    "model",
    [lambda: small_resnet("batch"), lambda: tiny("convnext_atto"), lambda: small_vit(img_size=32, global_pool="avg")],
)
def test_every_model_can_be_used(checkpoint: str, model: Callable[[], Any]) -> None:
    method = built(model(), unet=checkpoint)
    for batch in stream(count=2, size=2, last=1, pixels=32):
        assert method.adapt(batch).isfinite().all()


def test_a_folder_of_diffusers_brings_its_own_schedule(tmp_path: Path) -> None:
    widths = {"block_out_channels": (32, 32), "sample_size": 8, "layers_per_block": 1}
    blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        diffusers.UNet2DModel(**widths, **blocks).save_pretrained(tmp_path / "unet")
    plain = built(unet=str(tmp_path), size=None)
    assert plain._redraw.size == 8
    (batch,) = stream(count=1, size=2)
    first = plain.redrawn(batch)
    diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2").save_pretrained(tmp_path / "scheduler")
    assert not torch.equal(built(unet=str(tmp_path), size=None).redrawn(batch), first)
    assert torch.equal(built(unet=str(tmp_path / "unet"), size=None).redrawn(batch), first)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, r"dda needs a diffusion model \(dda.unet=FOLDER\) or drawings made earlier"),
        ({"unet": "nowhere"}, "nowhere is no diffusion model: expected a folder that diffusers saved"),
        ({"unet": __file__}, "is no readable PyTorch file of weights"),
        ({"generated": "nowhere"}, "generated=nowhere is no folder; make it by a run with dda.unet set"),
        ({"generated": ".", "start": 10}, "start is 10 and steps is 10, expected 1 <= start < steps"),
        ({"generated": ".", "images_at_once": 0}, "images_at_once is 0"),
        ({"generated": ".", "down": 0}, "down is 0"),
    ],
)
def test_what_cannot_work_is_one_line(params: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        built(**params)


def broken(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    state = dict(small_unet().state_dict())
    change(state)
    return state


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.update({"label_emb.weight": torch.zeros(1)}), "is conditional on classes"),
        (lambda s: s.pop("input_blocks.0.0.weight"), "has no 'input_blocks.0.0.weight'"),
        (lambda s: s.update({"input_blocks.3.0.op.weight": torch.zeros(1)}), "changes sizes by convolutions"),
        (
            lambda s: s.update({"input_blocks.99.0.in_layers.0.weight": torch.zeros(1)}),
            "belongs to no block of 2 levels",
        ),
        (lambda s: s.pop("input_blocks.1.0.in_layers.0.weight"), "does not fit its own layout"),
    ],
)
def test_other_layouts_are_refused_by_name(change: Any, said: str, tmp_path: Path) -> None:
    torch.save(broken(change), tmp_path / "other.pt")
    with pytest.raises(UserError, match=said):
        built(unet=str(tmp_path / "other.pt"))


def test_a_missing_package_is_named(checkpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(UserError, match=r"dda needs the package diffusers: pip install 'tta-bench\[dda\]'"):
        built(unet=checkpoint)
