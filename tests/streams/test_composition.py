"""Composed streams: their names, their promises, and the signatures of the published samplers that they reproduce."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tta_bench.data.families import CORRUPTIONS
from tta_bench.data.images import ArrayImages
from tta_bench.errors import UserError
from tta_bench.streams.composed import Composition
from tta_bench.streams.composition import OWN, compose, presets_of
from tta_bench.streams.presets import presets
from tta_bench.streams.scenarios import SCENARIOS, Plan, scenario_of
from tta_bench.streams.stream import Part, Stream, make_stream

Ints = Any
SIZES = ((10, 1000), (1000, 50), (100, 100))  # classes and images of each, as CIFAR-10-C, ImageNet-C and CIFAR-100-C


def labels_of(classes: int, each: int, parts: int = 1) -> Ints:
    return np.tile(np.arange(classes * each) % classes, parts)


def plan(text: str, classes: int, each: int, tasks: int = 1, seed: int = 0) -> tuple[Plan, Ints]:
    """The plan of a scenario on the first corruptions, and the labels of its images in order."""
    how = scenario_of(text)
    names = [name for name in CORRUPTIONS[: tasks if how.joins_tasks else 1] for _ in how.severities]
    labels = labels_of(classes, each, len(names))
    found = how.plan(names, [classes * each] * len(names), labels, ("stream", "s", *dict.fromkeys(names), seed))
    return found, labels[found.order]


def stream(text: str, classes: int = 10, each: int = 20, tasks: int = 3, seed: int = 0, **more: Any) -> Stream:
    how = scenario_of(text)
    pixels = np.zeros((classes * each, 3, 1, 1), np.uint8)
    parts = []
    for task in CORRUPTIONS[: tasks if how.joins_tasks else 1]:
        ids = [f"{task}/{i}" for i in range(classes * each)]
        parts += [Part(task, ArrayImages(pixels, labels_of(classes, each), ids)) for _ in how.severities]
    if isinstance(how, Composition) and how.on("clean"):
        parts.append(Part("clean", ArrayImages(pixels, labels_of(classes, each), [f"{i}" for i in range(len(pixels))])))
    return make_stream(how, "s", seed, parts, **more)


def runs(labels: Ints) -> float:
    return float(1 + np.count_nonzero(np.diff(labels)))


def top64(labels: Ints) -> float:
    whole = labels[: len(labels) // 64 * 64].reshape(-1, 64)
    return float(np.mean([np.bincount(window).max() for window in whole])) / 64


NOTE = "slots=classes,balance=yes,least=10"
# Runs and share of the top class of 64, each with four standard deviations of the published samplers' simulations.
SIGNATURES = [
    ("normal", 10, 1000, 8986, 60, 0.163, 0.004),
    ("normal", 1000, 50, 49953, 30, 0.030, 0.002),
    ("normal+dirichlet:1", 10, 1000, 98, 20, 0.864, 0.12),
    ("normal+dirichlet:1", 1000, 50, 43355, 260, 0.043, 0.024),
    ("rotta", 10, 1000, 63, 20, 0.939, 0.12),
    ("rotta", 1000, 50, 20031, 260, 0.163, 0.024),
    ("normal+dirichlet:0.01", 10, 1000, 22, 20, 0.978, 0.12),
    ("normal+dirichlet:0.01", 1000, 50, 5389, 260, 0.453, 0.024),
    (f"normal+dirichlet:1,{NOTE}", 10, 1000, 91, 20, 0.869, 0.12),
    (f"normal+dirichlet:1,{NOTE}", 1000, 50, 49784, 260, 0.019, 0.024),
    ("note", 10, 1000, 48, 20, 0.955, 0.12),
    ("note", 1000, 50, 46747, 260, 0.042, 0.024),
    ("note", 100, 100, 2289, 260, 0.284, 0.12),
    (f"normal+dirichlet:0.01,{NOTE}", 10, 1000, 21, 20, 0.980, 0.12),
    (f"normal+dirichlet:0.01,{NOTE}", 1000, 50, 19929, 260, 0.178, 0.024),
    (f"normal+dirichlet:0.01,{NOTE}", 100, 100, 531, 260, 0.650, 0.12),
    ("correlated", 10, 1000, 10, 0, 0.985, 0.001),
    ("lame", 1000, 50, 1000, 0, 0.680, 0.001),
    ("lame", 100, 100, 100, 0, 0.841, 0.001),
    ("gli-f-10", 10, 1000, 55, 20, 0.875, 0.12),
    ("gli-f-100", 1000, 50, 6533, 260, 0.109, 0.024),
    ("gli-v-200", 1000, 50, 5689, 260, 0.111, 0.024),
]


@pytest.mark.parametrize(("text", "classes", "each", "expected", "off", "top", "top_off"), SIGNATURES)
def test_labels_follow_each_other_as_published(
    text: str, classes: int, each: int, expected: float, off: float, top: float, top_off: float
) -> None:
    found = [plan(text, classes, each, seed=seed)[1] for seed in range(2)]
    assert abs(np.mean([runs(labels) for labels in found]) - expected) <= off
    assert abs(np.mean([top64(labels) for labels in found]) - top) <= top_off


@pytest.mark.parametrize(
    ("text", "classes", "each", "count"),
    [
        *(("gli-f-10", 10, 1000, 4084), ("gli-f-100", 10, 1000, 2478), ("gli-v-200", 10, 1000, 2238)),
        *(("gli-f-10", 1000, 50, 19059), ("gli-v-100", 1000, 50, 10248), ("gli-f-200", 1000, 50, 8910)),
    ],
)
def test_long_tails_keep_as_many_images_as_published(text: str, classes: int, each: int, count: int) -> None:
    found, labels = plan(text, classes, each)
    assert len(found.order) == count == len(set(found.order))
    sizes = np.bincount(labels, minlength=classes)
    factor = float(text.rpartition("-")[2])
    assert sizes.max() == each
    assert sizes.min() == int(each / factor + 1e-9)
    assert (np.diff(sizes) <= 0).all() == text.startswith("gli-f")


def test_zipf_shares_are_uneven_and_drawn_with_replacement() -> None:
    found, labels = plan("lame-imbalanced", 1000, 50)
    sizes = np.sort(np.bincount(labels, minlength=1000))[::-1]
    assert len(labels) == 50_000 > len(set(found.order))
    assert 0.4 < sizes[:100].sum() / 50_000 < 0.9


def test_published_batches_of_two_domains() -> None:
    across, border = (stream(text, 10, 1000, 15) for text in ("rotta", "rotta+border"))
    two = [sum(len(set(s.task_of(batch))) > 1 for batch in s.batches(64)) for s in (across, border)]
    assert two == [11, 0]
    assert sum(1 for _ in across.batches(64)) == 2344


def test_dynamic_change_as_published() -> None:
    changes: dict[str, list[int]] = {"cdc": [], "dynamic-uniform": []}
    for text, found in changes.items():
        for seed in range(8):
            made, _ = plan(text, 1000, 5, 15, seed)
            assert sorted(made.order) == list(range(75_000)), "every image once"
            found.append(int(np.count_nonzero(np.diff(made.order // 5000))))
    assert all(39 <= count <= 44 for count in changes["cdc"])
    assert 46 <= min(changes["dynamic-uniform"]) <= np.mean(changes["dynamic-uniform"]) <= 78


def test_published_orders_of_tasks() -> None:
    def order(text: str, seed: int = 0) -> list[int]:
        made, _ = plan(text, 2, 2, 15, seed)
        return [int(i) for i in dict.fromkeys(made.order // 4)]

    assert order("rotta") == [5, 7, 9, 1, 3, 11, 6, 10, 8, 12, 4, 0, 13, 14, 2]
    assert order("cotta-10", 3) == order("continual+order:cotta-3", 0)
    assert sorted(order("continual+order:random", 1)) == list(range(15))
    assert order("continual+order:random", 1) != order("continual+order:random", 2) != list(range(15))
    assert stream("continual+order:cotta-5", tasks=2).task_of(stream("rotta", tasks=2).order)[0] == "shot_noise"


def test_recurring_tasks_show_the_same_images_in_another_order() -> None:
    made, _ = plan("petta-20", 10, 20, 15)
    laps = made.order.reshape(20, -1)
    assert made.laps is not None
    assert made.laps.tolist() == list(range(0, 20 * 3000, 3000))
    assert all(sorted(lap) == list(range(3000)) for lap in laps)
    assert len({tuple(lap) for lap in laps}) == 20


def test_gradual_streams_show_all_images_at_each_step() -> None:
    made, _ = plan("cotta-gradual", 2, 4, 15)
    steps = made.order.reshape(-1, 8) // 8
    assert len(steps) == 131
    assert (steps[:5, 0] + 1).tolist() == [5, 4, 3, 2, 1]
    assert (steps[5:14, 0] - 4).tolist() == [1, 2, 3, 4, 5, 4, 3, 2, 1]
    assert len(plan("continual-gradual+stored+border", 2, 4, 15)[0].order) == 135 * 8


def test_clean_images_come_after_each_task() -> None:
    found = stream("forgetting", each=8)
    visits = found.task_of(found.order[found.borders]).tolist()
    assert visits == [name for task in CORRUPTIONS[:3] for name in (task, "clean")]


def test_a_probe_comes_between_tasks_and_within_them() -> None:
    for text, lengths in (("remember:5", [5, *[200, 5] * 3]), ("remember:5,every=96", [5, *[96, 5, 96, 5, 8, 5] * 3])):
        found = stream(f"continual+{text}")
        assert [len(piece) for piece in np.split(found.order, found.borders[1:])] == lengths
        tasks = found.order[found.task_of(found.order) != "clean"]
        assert tasks.tolist() == stream("continual").order.tolist(), "it moves no image of a task"
        probes = found.order[found.task_of(found.order) == "clean"].reshape(-1, 5)
        assert (probes == probes[0]).all()


@pytest.mark.parametrize("domains", ["normal", "continual", "mixed", "gradual"])
def test_how_a_stream_is_run_keeps_its_order(domains: str) -> None:
    for more in ("reset:batch", "reset:7", "freeze:16"):
        assert stream(f"{domains}+{more}", each=18).order.tolist() == stream(domains, each=18).order.tolist()


def test_one_draw_for_all_tasks() -> None:
    laps = [part % 200 for part in np.split(stream("correlated").order, 3)]
    assert (laps[0] == laps[1]).all()
    assert (laps[0] == laps[2]).all()
    other = [part % 200 for part in np.split(stream("continual+classes:index").order, 3)]
    assert (other[0] != other[1]).any()


def test_a_limit_holds_for_each_visit() -> None:
    found = stream("continual+recurring:4+border", limit=10)
    assert len(found.order) == 4 * 3 * 10
    assert found.borders.tolist() == list(range(0, 120, 10))
    assert [len(batch) for batch in found.batches(8)] == [8, 2] * 12


def test_resets_fall_on_borders() -> None:
    assert stream("continual+reset:task+border").resets(64) == [4, 8]  # three tasks of 200: 64, 64, 64, 8
    assert stream("continual+reset:task").resets(64) == [4, 7]  # batches go on: the next ones
    assert stream("continual").resets(64) == []


def test_names_are_normal() -> None:
    text = "dirichlet:0.10+recurring:020+continual+reset:never+order:given"
    assert scenario_of(text).name == "continual+recurring:20+dirichlet:0.1"
    assert scenario_of("continual+reset:never+iid") == SCENARIOS["continual"]()
    assert scenario_of("dirichlet:0.1").name == "normal+dirichlet:0.1"
    assert scenario_of("petta-20+recurring:5").name == presets()["petta-20"].replace("20", "5")
    assert presets_of(scenario_of("petta-20").name) == ["petta-20"]


def test_large_numbers_keep_their_plus_sign() -> None:
    assert scenario_of(scenario_of("continual+label-shift:1e12").name).name == "continual+label-shift:1e+12"


@pytest.mark.parametrize("preset", presets())
def test_a_preset_is_a_composition_and_nothing_else(preset: str) -> None:
    found = scenario_of(preset)
    assert isinstance(found, Composition)
    assert scenario_of(found.name) == found == compose(presets()[preset])
    assert found.settings == {}


BAD = {
    "dirichlet:0": "dirichlet: delta: expected a number above 0",
    "dirichlet:1e-320": "dirichlet: delta: expected a number from 0.000001",
    "continual++iid": "a choice is missing",
    "": "a choice is missing",
    "dirichlet": "dirichlet: needs delta, as in dirichlet:0.1",
    "continual+recurring:0": "recurring: laps: expected a whole number of at least 1",
    "long-tail:0.5": "factor: expected a number from 1",
    "reset:task+reset:8": "reset:task and reset:8 are two choices of one axis (when a method returns",
    "reset:sometimes": "expected task, never, batch or a number of batches",
    "mixed+border": "mixed tasks have no borders",
    "normal+reset:never": "requires one stream over all tasks",
    "normal+order:random": "order:random requires one stream over all tasks",
    "freeze:9+reset:batch": "a frozen method cannot be reset",
    "mixed+clean": "clean requires continual",
    "mixed+remember:9": "remember requires continual",
    "continual+remember:9+reset:2": "omit freeze and resets by batches",
    "ccc+freeze:9": "'ccc' stands alone",
    "petta-20:3": "is a preset and takes no settings",
    "dirichlet:0.1,slot=3": "unknown setting 'slot'; did you mean 'slots'?",
    "dynamic:1,pieces=100000000": "pieces: expected at most 10,000, got 100,000,000",
    "zipf:101": "a: expected a number from 1.1 to 100, got 101",
    "zipf:1.0000001": "a: expected a number from 1.1 to 100, got 1",
    "rotta+note": "the presets rotta and note have continual and normal on one axis (how tasks follow each other)",
    f"normal+open:0.2,data={'x' * 200}": "has a name of 221 characters, at most 200 are possible",
    "dirichlett:0.1": "unknown scenario 'dirichlett'; did you mean 'dirichlet'?",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_input_is_one_line(text: str) -> None:
    with pytest.raises(UserError) as error:
        scenario_of(text)
    assert BAD[text] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("normal+freeze:200", "freeze:200 needs a longer stream: this one has 200 images"),
        ("normal+dirichlet:1,slots=classes,least=20", "no draw in 200 tries"),
        ("normal+zipf:1.1", "in 200 tries, a tenth of 1000 classes always has 90 % of the images: use a larger"),
        ("continual+recurring:1000000", "longer than 100,000,000"),
        ("continual+remember:201", "remember:201 needs more clean images than the 200 there are"),
    ],
)
def test_streams_that_their_data_cannot_make_are_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        stream(text, *((1000, 1) if "zipf" in text else (10, 20)))


def test_an_order_of_other_tasks_is_refused() -> None:
    with pytest.raises(UserError, match="'art' is none of them: use order:random"):
        scenario_of("rotta").plan(["art"], [4], np.arange(4), ("s", 0))


def test_a_million_images_in_seconds() -> None:
    began = time.process_time()
    made, _ = plan("mixed-correlated", 1000, 50, 15)
    assert len(set(made.order.tolist())) == 750_000
    plan("petta-20", 10, 1000, 15)
    assert time.process_time() - began < 30


LABELS = st.sampled_from(["iid", "stored", "classes", "classes:index", "dirichlet:0.1", "dirichlet:2,balance=yes"])
DOMAINS = st.sampled_from(["normal", "continual", "mixed", "gradual", "dynamic:unit=8", "dynamic-uniform:unit=8"])


@settings(max_examples=60, deadline=None)
@given(DOMAINS, LABELS, st.integers(1, 3), st.integers(1, 6), st.integers(1, 9), st.integers(0, 3))
@example("gradual", "dirichlet:0.1", 1, 1, 1, 0)  # more parts than images
@example("gradual", "dirichlet:2,balance=yes", 1, 1, 1, 0)
def test_every_image_comes_once_in_each_lap(
    domains: str, labels: str, laps: int, classes: int, each: int, seed: int
) -> None:
    text = f"{domains}+recurring:{laps}+{labels}"
    made, _ = plan(text, classes, each, 3, seed)
    again, _ = plan(text, classes, each, 3, seed)
    assert (made.order == again.order).all(), "same seed, same order"
    first = made.order[: len(made.order) // laps]
    assert len(set(first.tolist())) == len(first)
    for lap in np.split(made.order, laps):
        assert domains == "gradual" or sorted(lap) == sorted(first)
    if isinstance(scenario_of(text), Composition):
        assert made.borders is not None
        assert made.borders[0] == 0
        assert (np.diff(made.borders) >= 0).all()


@settings(max_examples=40, deadline=None)
@given(DOMAINS, LABELS, st.integers(1, 6), st.integers(1, 9), st.integers(0, 3))
def test_more_laps_begin_as_fewer(domains: str, labels: str, classes: int, each: int, seed: int) -> None:
    one, two, three = (
        plan(f"{domains}{laps}+{labels}", classes, each, 3, seed)[0].order
        for laps in ("", "+recurring:2", "+recurring:3")
    )
    assert np.array_equal(two, three[: len(two)])
    if isinstance(scenario_of(f"{domains}+{labels}"), Composition):  # else one of the seven that came before
        assert np.array_equal(one, two[: len(one)])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["normal", "continual", "mixed", "continual+recurring:2"]), LABELS, st.integers(1, 30))
def test_a_limit_takes_what_comes_first_of_each_task_in_each_lap(domains: str, labels: str, limit: int) -> None:
    whole, short = (stream(f"{domains}+{labels}", 4, 6, limit=most) for most in (None, limit))
    laps = 2 if "recurring" in domains else 1
    expected = []
    for lap in np.split(whole.order, laps):
        tasks = whole.task_of(lap)
        kept = [place for task in dict.fromkeys(tasks) for place in np.flatnonzero(tasks == task)[:limit]]
        expected += lap[sorted(kept)].tolist()
    assert short.order.tolist() == expected


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["continual", "dynamic:unit=8"]), LABELS, st.integers(1, 40), st.integers(1, 9))
def test_batches_hold_the_stream_whatever_their_size(domains: str, labels: str, size: int, each: int) -> None:
    for cut in ("", "+border"):
        found = stream(f"{domains}+{labels}{cut}", 4, each)
        batches = list(found.batches(size))
        assert np.concatenate(batches).tolist() == found.order.tolist()
        assert all(0 < len(batch) <= size for batch in batches)
        assert not cut or all(len(set(found.task_of(batch))) == 1 for batch in batches)


# Those that need no other data, and no longer streams than ours here.
PINNED = [name for name in presets() if compose(name).on("open") is None and name != "freeze-512"]


def test_orders_never_change_between_versions() -> None:
    """Recorded: a change would make old records incomparable."""
    assert stream("rotta").digest == "495295d0e8267162"
    assert stream("note+dirichlet:0.1").digest == "f9167e98a3a2ba0f"
    made = [stream(name).digest for name in PINNED]
    assert hashlib.sha256("".join(made).encode()).hexdigest()[:16] == "2e84c78dafb789b3"
    assert {choice.axis for choice in OWN.values()} >= {"domains", "labels", "prior", "reset", "freeze"}
