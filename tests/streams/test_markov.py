"""Streams of Markov chains: UniTTA's signatures, and what holds for any chances and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams.test_composition import plan, runs, stream
from tta_bench.errors import UserError
from tta_bench.measure.correlation import correlation
from tta_bench.streams.composition import compose
from tta_bench.streams.presets import presets
from tta_bench.streams.scenarios import Scenario, scenario_of

# Images, run lengths of tasks and of classes, and the share of the top class of 64. A stream that ends
# when one class of one task is used up scatters: its tolerance is four standard deviations of ours. At 1,000
# classes that would allow anything, so the length is tested over several seeds, below.
SIGNATURES = [
    ("i1i1", 10, "all", 135_870, 4_000, 1.071, 1.11, 0.165),
    ("i111", 10, "all", 150_000, 0, 10_000, 1.11, 0.165),
    ("n1i1", 10, "all", 129_370, 15_000, 1.071, 20, 0.570),
    ("n1n1", 10, "all", 116_423, 18_000, 6.67, 20, 0.567),
    ("n111", 10, "all", 150_000, 0, 10_000, 20, 0.567),
    ("iui1", 10, "all", 61_275, 0, 1.071, 1.32, 0.303),
    ("nunu", 10, "all", 31_330, 14_000, 3.34, 8.2, 0.485),
    ("nu11", 10, "all", 61_275, 0, 4_085, 8.2, 0.485),
    ("i111", 1000, 10, 150_000, 0, 10_000, 1.00, 0.030),
    ("i1i1", 1000, 10, None, 0, 1.071, 1.00, 0.030),
    ("n1i1", 1000, 50, None, 0, 1.071, 20, 0.540),
    ("n1n1", 1000, 100, None, 0, 6.67, 20, 0.541),
    ("iui1", 1000, 10, 58_425, 0, 1.071, 1.00, 0.034),
    ("nunu", 1000, 100, None, 0, 3.34, 7.95, 0.392),
    ("nu11", 1000, 10, 58_425, 0, 3_895, 7.9, 0.391),
]


def capped(name: str, cap: str | int) -> str:
    chosen = str(compose(f"unitta-{name}").on("labels"))
    return f"unitta-{name}+{chosen}{',' if ':' in chosen else ':'}cap={cap}"


@pytest.mark.parametrize(("name", "classes", "cap", "images", "off", "task_run", "run", "top"), SIGNATURES)
def test_chains_have_the_published_signatures(
    name: str, classes: int, cap: str | int, images: int | None, off: int, task_run: float, run: float, top: float
) -> None:
    each = 1000 if classes == 10 else 50
    made, labels = plan(capped(name, cap), classes, each, 15)
    tasks = made.order // (classes * each)
    assert images is None or abs(len(labels) - images) <= off
    assert len(labels) / runs(tasks) == pytest.approx(task_run, rel=0.04)
    assert correlation(labels).run == pytest.approx(run, rel=0.04)
    assert correlation(labels).top == pytest.approx(top, abs=0.015)


@pytest.mark.parametrize(
    ("name", "cap", "published"),
    [("i1i1", 10, 30_137), ("n1i1", 50, 154_539), ("n1n1", 100, 201_341), ("nunu", 100, 91_821)],
)
def test_chains_that_end_by_chance_have_the_published_length(name: str, cap: int, published: int) -> None:
    """The published length is one draw: it is within two standard deviations of the mean of ours."""
    found = [len(plan(capped(name, cap), 1000, 50, 15, seed)[1]) for seed in range(8)]
    assert abs(np.mean(found) - published) <= 2 * np.std(found, ddof=1)
    if name == "i1i1":  # 15,000 states, each step one of them: half of all streams end before 30,000 steps
        assert abs(np.mean(found) - 30_000) <= 3 * np.std(found, ddof=1) / np.sqrt(len(found))


def test_uneven_chains_have_their_ratios() -> None:
    for name in ("iuiu", "iu1u", "iunu", "nuiu", "nunu"):
        made, labels = plan(f"unitta-{name}", 10, 1000, 15)
        tasks = np.bincount(made.order // 10_000, minlength=15)
        kinds = np.bincount(labels, minlength=10)
        first, last = 5, 2  # of the published order
        assert tasks[first] / tasks[last] == pytest.approx(5, rel=0.35), "the first task of the order leads"
        assert kinds[0] / kinds[-1] == pytest.approx(10, rel=0.35)


def test_unitta_has_its_24_names() -> None:
    assert sum(name.startswith("unitta-") for name in presets()) == 24
    assert scenario_of("unitta-i1i1").name == "mixed+order:cotta-5+markov"


def test_classes_of_a_task_alone_follow_a_chain() -> None:
    made, labels = plan("normal+markov:0.9", 10, 200)
    assert len(made.order) == 2000
    assert 8 < len(labels) / runs(labels) < 12
    assert len(stream("continual+markov:0.9").order) == 3 * 200


def order(how: Scenario, sizes: list[int], labels: list[int], seed: int) -> Any:
    """Of three tasks; None where ratios leave no image."""
    try:
        return how.plan(["fog", "snow", "frost"], sizes, np.array(labels), ("s", seed)).order
    except UserError:
        return None


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["iid", "0.3", "0.9", "0.99"]),
    st.sampled_from([1, 3, 40]),
    st.sampled_from(["iid", "0.5", "0.9", "1"]),
    st.sampled_from([1, 7]),
    st.lists(st.integers(0, 5), min_size=6, max_size=30),
    st.integers(1, 8),
    st.integers(0, 2),
)
def test_chains_show_images_that_are_there(
    stay: str, ratio: int, task_stay: str, task_ratio: int, labels: list[int], cap: int, seed: int
) -> None:
    """Whatever classes a task lacks; an image comes again only when its class has shown all of that task."""
    how = scenario_of(f"mixed+markov:{stay},ratio={ratio},task_stay={task_stay},task_ratio={task_ratio},cap={cap}")
    sizes = [len(labels) // 3, len(labels) // 3, len(labels) - 2 * (len(labels) // 3)]
    found = order(how, sizes, labels, seed)
    if found is None:
        assert ratio * task_ratio > 1
        return
    assert 0 < len(found) <= 3 * 6 * cap
    assert np.array_equal(found, order(how, sizes, labels, seed))
    task = np.repeat([0, 1, 2], sizes)
    shown = np.bincount(found, minlength=len(labels))
    for state in {(t, c) for t, c in zip(task, labels, strict=True)}:
        counts = shown[[i for i in range(len(labels)) if (task[i], labels[i]) == state]]
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("markov:1", "for class after class use classes"),
        ("markov:0", "expected iid or a number above 0"),
        ("markov:nan", "expected iid or a number above 0"),
        ("mixed+markov:0.5,task_stay=1.5", "expected iid or a number above 0 and at most 1, got '1.5'"),
        ("markov:0.5,ratio=0.5", "ratio: expected a number from 1"),
        ("markov:0.5,cap=0", "cap: expected a whole number of at least 1, got '0', or 'all'"),
        ("mixed+order:random", "mixed tasks have no order, except with markov"),
        ("continual+markov:0.9,task_stay=0.9", "task_stay and task_ratio need mixed tasks"),
        ("mixed+same-draw", "mixed tasks are drawn together"),
        ("mixed+markov+border", "mixed tasks have no borders"),
    ],
)
def test_bad_chains_are_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        scenario_of(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_chains_that_are_too_long_are_refused() -> None:
    with pytest.raises(UserError, match="use a smaller cap"):
        stream("mixed+markov:cap=1000000")
