"""Images of unknown classes in a stream: how many, where, and where they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.trees import write
from tta_bench.data.families import CORRUPTIONS
from tta_bench.data.images import ArrayImages
from tta_bench.datasets import open_dataset
from tta_bench.errors import UserError
from tta_bench.streams.composition import compose
from tta_bench.streams.presets import presets
from tta_bench.streams.scenarios import Material, Plan, scenario_of
from tta_bench.streams.stream import Part, Stream, make_stream
from tta_bench.streams.unknown import Unlabelled, unknown_parts
from tta_bench.suites import suite as suites

FORMS = (
    *("normal", "continual", "mixed", "gradual", "continual-gradual"),
    *("continual+recurring:2", "continual+classes", "continual+dirichlet:0.1+same-draw", "mixed+dirichlet:0.1"),
    *("normal+long-tail:3", "normal+stored", "continual+clean+border", "continual+remember:5"),
)


def parts_of(text: str, known: int, unknown: int, tasks: int) -> list[Part]:
    """Parts as `Scenario.parts` makes them, with black images."""
    how = compose(text)

    def images(count: int, label: int | None = None) -> ArrayImages:
        labels = np.arange(count) % 5 if label is None else np.full(count, label)
        return ArrayImages(np.zeros((count, 3, 1, 1), np.uint8), labels, [str(i) for i in range(count)])

    named = [task for task in CORRUPTIONS[: tasks if how.joins_tasks else 1] for _ in how.severities]
    found = [Part(task, images(known)) for task in named]
    if how.on("open"):
        found += [Part(task, Unlabelled(images(unknown), (1, 1))) for task in named]
    return found + ([Part("clean", images(known))] if how.on("clean") else [])


def stream(text: str, known: int = 40, unknown: int = 60, tasks: int = 3, seed: int = 0, **more: Any) -> Stream:
    return make_stream(compose(text), "s", seed, parts_of(text, known, unknown, tasks), **more)


def plan(text: str, known: int, unknown: int, tasks: int = 1, seed: int = 0) -> tuple[Plan, Any]:
    parts = parts_of(text, known, unknown, tasks)
    labels = np.concatenate([part.images.labels for part in parts])
    sizes, names = [len(part.images.ids) for part in parts], [part.task for part in parts]
    return compose(text).plan(names, sizes, labels, ("s", seed)), labels


@pytest.mark.parametrize("text", FORMS)
@settings(max_examples=6)
@given(known=st.integers(18, 60), share=st.sampled_from([0.1, 0.2, 1 / 3, 0.5]), seed=st.integers(0, 5))
def test_known_images_keep_the_order_that_they_have_alone(text: str, known: int, share: float, seed: int) -> None:
    alone, _ = plan(text, known, 0, 3, seed)
    mixed, labels = plan(f"{text}+open:{share:.10g}", known, 60, 3, seed)
    kept = mixed.order[labels[mixed.order] >= 0]
    own = len(compose(text).severities) * (3 if compose(text).joins_tasks else 1) * known
    clean = kept >= own
    assert (np.where(clean, kept - own // known * 60, kept) == alone.order).all()
    count = len(kept) - np.count_nonzero(clean)
    segments = 27 if text == "continual-gradual" else 9 if text == "gradual" else 6
    assert abs((len(mixed.order) - len(kept)) - count * share / (1 - share)) <= segments / 2, "rounded in each"
    if "recurring" not in text and "continual-gradual" not in text:
        drawn = mixed.order[labels[mixed.order] < 0]
        assert len(set(drawn)) == len(drawn), "no unknown image twice"


@pytest.mark.parametrize("text", ["dynamic:1,unit=4", "dynamic-uniform:4"])
def test_dynamic_change_cuts_tasks_with_their_unknown_images(text: str) -> None:
    mixed, labels = plan(f"{text}+open:0.25", 42, 60, 3)
    kept = mixed.order[labels[mixed.order] >= 0]
    assert sorted(kept) == list(range(3 * 42))
    assert len(mixed.order) == len(set(mixed.order)) == 3 * (42 + 14)


@pytest.mark.parametrize("text", ["stamp", "sotta-far", "come-open", "unient"])
def test_presets_have_the_published_shares(text: str) -> None:
    made = stream(text, known=1000, unknown=1000, tasks=2)
    share = 0.2 if text == "stamp" else 0.5
    assert np.mean(made.images.labels[made.order] < 0) == pytest.approx(share)
    for task in dict.fromkeys(made.tasks):
        own = made.order[made.task_of(made.order) == task]
        assert np.mean(made.images.labels[own] < 0) == pytest.approx(share)
    assert compose(presets()[text]).name == compose(text).name


def test_unient_shows_known_then_unknown_halves_in_every_batch() -> None:
    made = stream("unient", known=1000, unknown=1000, tasks=2)
    for batch in made.batches(200):
        assert (made.images.labels[batch] >= 0).tolist() == [True] * 100 + [False] * 100


def test_shuffled_shares_of_a_batch_scatter_as_published() -> None:
    made = stream("stamp", known=10_000, unknown=10_000)
    counts = [np.count_nonzero(made.images.labels[batch] < 0) for batch in made.batches(64) if len(batch) == 64]
    assert abs(np.mean(counts) - 12.8) < 0.2
    assert 2.5 < np.std(counts) < 4.1


def test_orders_depend_on_the_seed_and_not_on_the_batch_size() -> None:
    one, same, other = (stream("continual+open:0.3", seed=seed) for seed in (0, 0, 1))
    assert one.digest == same.digest != other.digest
    assert np.concatenate([*one.batches(7)]).tolist() == np.concatenate([*one.batches(64)]).tolist()
    assert stream("continual").digest != one.digest


def test_tasks_and_laps_show_the_same_unknown_images() -> None:
    made = stream("continual+recurring:2+open:0.2", known=40, unknown=60, tasks=2)
    shown = made.order[made.images.labels[made.order] < 0]
    first, second = shown[: len(shown) // 2], shown[len(shown) // 2 :]
    assert sorted(first) == sorted(second)
    assert {made.images.ids[i].partition("/")[2] for i in first[:10]} == {
        made.images.ids[i].partition("/")[2] for i in first[10:]
    }


def test_a_small_unknown_set_is_refused_repeated_or_cuts_the_known_one() -> None:
    with pytest.raises(UserError, match=r"40 known images need 40 of unknown classes, and 'noise' has 10: use a"):
        stream("open:0.5", unknown=10)
    repeated = stream("open:0.5,short=repeat", unknown=10)
    labels = repeated.images.labels[repeated.order]
    assert np.count_nonzero(labels < 0) == 40 == np.count_nonzero(labels >= 0)
    cut = stream("open:0.5,short=cut", unknown=10)
    assert len(cut.order) == 20 == len(set(cut.order))
    with pytest.raises(UserError, match="nothing to mix"):
        stream("open:0.5,short=repeat", unknown=0)
    with pytest.raises(UserError, match="nothing to mix"):
        stream("open:0.01", known=2)


def test_a_limit_keeps_some_known_images() -> None:
    made = stream("continual+open:0.5", limit=10)
    assert len(made.order) == 30
    assert made.is_part
    whole = [stream("open:0.5", seed=seed) for seed in range(20)]
    seed = next(seed for seed, one in enumerate(whole) if one.images.labels[one.order[0]] < 0)
    with pytest.raises(UserError, match="only images of unknown classes"):
        stream("open:0.5", limit=1, seed=seed)


@pytest.mark.parametrize("share", ["0", "1", "1.5", "-0.2", "x", "nan", "0.9999999"])
def test_a_share_is_above_0_and_at_most_0_99(share: str) -> None:
    with pytest.raises(UserError, match="expected a share above 0 and at most 0.99"):
        scenario_of(f"open:{share}")


def test_combinations_without_sense_are_refused() -> None:
    with pytest.raises(UserError, match="blocks are cut by dynamic"):
        scenario_of("dynamic+open:0.5,blocks=10")
    with pytest.raises(UserError, match="stands alone"):
        scenario_of("ccc+open:0.2")
    with pytest.raises(UserError, match="two choices of one axis"):
        scenario_of("open:0.2+open:0.3")


def test_sweeps_change_the_share_and_keep_the_other_settings() -> None:
    assert scenario_of("normal+open:0.2,data=x", replaced="open:0.4").name == "normal+open:0.4,data=x"


def material(suite: str, root: Path | None = None) -> Material:
    found = suites.load(suite)
    return Material(open_dataset(found.data, found.tasks, root), found.data, suite, 0, ("fog",), root)


def opened(choice: str, suite: str = "digits-c-5", root: Path | None = None) -> Part:
    here, how = material(suite, root), compose(choice)
    (found,) = unknown_parts(how.on("open"), here, [Part("fog", here.dataset.open("fog"))], (None,))
    return found


def test_noise_is_as_large_as_the_known_images_and_always_the_same() -> None:
    found = opened("open:0.5").images
    pixels = found.read(np.array([3, 5]))
    assert pixels.shape == (2, 3, 32, 32)
    assert (pixels == opened("open:0.2").images.read(np.array([3, 5]))).all()
    assert (len(found.ids), set(found.labels)) == (640, {-1})
    assert 120 < pixels.mean() < 135
    assert (pixels[0] != pixels[1]).any()


def test_another_suite_gives_images_under_the_same_corruption_in_the_same_size() -> None:
    found = opened("open:0.2,data=digit-pairs-c-5").images
    assert found.read(np.array([0])).shape == (1, 3, 32, 32)
    assert opened("open:0.2,data=digits-c-5", "digit-pairs-c-5").images.read(np.array([0])).shape == (1, 3, 16, 32)
    with pytest.raises(UserError, match="classes that the model of digits-c-5 knows"):
        opened("open:0.2,data=digits-c-1")
    with pytest.raises(UserError, match="has no task 'fog' as digits-c-5 does"):
        opened("open:0.2,data=office-home")


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        ("cifar10-c-5", "cifar10.1"),
        ("cifar10.1", "cifar10-c-5"),
        ("cifar10-c-5", "CIFAR-10-C"),
        ("tiny-imagenet-c-5", "imagenet-c-5"),
        ("imagenet-c-5", "tiny-imagenet-c-5"),
    ],
)
def test_data_with_known_classes_is_refused(tmp_path: Path, known: str, unknown: str) -> None:
    own = [Part("fog", ArrayImages(np.zeros((4, 3, 32, 32), np.uint8), np.arange(4), list("abcd")))]
    (tmp_path / "CIFAR-10-C").mkdir()
    for name in ("fog", "labels"):
        (tmp_path / "CIFAR-10-C" / f"{name}.npy").touch()
    with pytest.raises(UserError, match=r"knows: choose another|has the images of cifar10-c-5 itself: choose another"):
        unknown_parts(compose(f"open:0.2,data={unknown}").on("open"), material(known, tmp_path), own, (None,))


def test_folders_and_arrays_below_the_data_root(tmp_path: Path) -> None:
    for place in ("svhn-c/fog/5/a", "svhn-c/fog/3/a", "svhn-c/snow/5", "mnist/7"):
        write(tmp_path / place / "x.png")
    write(tmp_path / "svhn-c/fog/5/y.png", size=(10, 10))
    (tmp_path / "empty").mkdir()
    found = opened("stamp", root=tmp_path).images
    assert list(found.ids) == ["unknown/svhn-c/a/x.png", "unknown/svhn-c/y.png"]
    assert found.read(np.arange(2)).shape == (2, 3, 32, 32)
    assert list(opened("sotta-far", root=tmp_path).images.ids) == ["unknown/mnist/7/x.png"]
    many = np.arange(5 * 4 * 32 * 32 * 3, dtype=np.int64).astype(np.uint8).reshape(20, 32, 32, 3)
    (tmp_path / "lsun-c").mkdir()
    np.save(tmp_path / "lsun-c/fog.npy", many)
    np.save(tmp_path / "lsun.npy", many)
    last = opened("open:0.2,data=lsun-c", root=tmp_path).images
    assert (last.read(np.array([0]))[0] == many[16].transpose(2, 0, 1)).all(), "severity 5"
    assert len(opened("open:0.2,data=lsun", root=tmp_path).images.ids) == 20
    np.save(tmp_path / "lsun-c/fog.npy", many[:19])
    for choice, message in {
        "lsun-c": "expected 5 severities of as many images each, got 19",
        "empty": "has no images",
        "nowhere": "expected a folder of images",
    }.items():
        with pytest.raises(UserError, match=message):
            opened(f"open:0.2,data={choice}", root=tmp_path)
    with pytest.raises(UserError, match="needs --data-root"):
        opened("stamp")


def test_a_folder_with_known_classes_is_refused(tmp_path: Path) -> None:
    for place in ("own/cat", "own/dog", "textures/dog", "textures/stripes"):
        write(tmp_path / place / "x.png")
    data = {"kind": "folder", "folder": "own"}
    here = Material(open_dataset(data, ["own"], tmp_path), data, "mine", 0, ("own",), tmp_path)
    own = [Part("own", here.dataset.open("own"))]
    with pytest.raises(UserError, match=r"has classes that the model knows \(dog\): remove them"):
        unknown_parts(compose("open:0.2,data=textures").on("open"), here, own, (None,))
