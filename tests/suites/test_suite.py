"""Suites are read strictly: each mistake is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.cli import Cli
from tta_bench import registry, settings
from tta_bench.datasets import open_dataset
from tta_bench.errors import UserError
from tta_bench.runs.options import RunOptions
from tta_bench.runs.spec import specs
from tta_bench.suites import schema, suite

GOOD = """
name: mine
about: a suite
data: {kind: digits-c, severity: 5}
tasks: [fog, snow]
model: digits-vit
batch_size: 32
methods: {source: {}, tent: {lr: 1e-3}}
"""


def test_a_suite_reads_back() -> None:
    (found,) = suite.parse(GOOD, "mine.yaml")
    assert found.tasks == ("fog", "snow")
    assert found.methods["tent"]["lr"] == 0.001  # YAML 1.1 would have read text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("methods:", "method:", r"mine.yaml: unknown key 'method'; did you mean 'methods'\?"),
        ("tasks: [fog, snow]", "tasks: [fog, fog]", "mine.yaml: tasks: 'fog' is listed twice"),
        ("tasks: [fog, snow]", "tasks: fog", "mine.yaml: tasks: expected a list"),
        ("tasks: [fog, snow]", "tasks: []", "mine.yaml: tasks: expected a list with at least one entry"),
        (
            "batch_size: 32",
            "batch_size: many",
            "mine.yaml: batch_size: expected a whole number of at least 1, got 'many'",
        ),
        ("batch_size: 32", "batch_size: 0", "batch_size: expected a whole number of at least 1, got 0"),
        ("batch_size: 32", "batch_size: true", "batch_size: expected a whole number"),
        ("model: digits-vit", "", "mine.yaml: missing key 'model'"),
        ("model: digits-vit\nbatch_size: 32", "", "mine.yaml: missing keys 'model', 'batch_size'"),
        ("name: mine", "for_eech: {}\nname: mine", "unknown key 'for_eech'; did you mean 'for_each'?"),
        ("name: mine", "for_each: {}\nname: mine", "for_each: expected one name with its values, got none"),
        ("name: mine", "for_each: {s: 3}\nname: mine", "for_each: s: expected a list, got 3"),
        ("name: mine", "for_each: {s: []}\nname: mine", "for_each: s: expected a list with at least one entry"),
        ("name: mine", "seeds: [0, -1]\nname: mine", "seeds: entry 2: expected a whole number from 0 to 2\\^63 - 1"),
        ("{source: {}, tent: {lr: 1e-3}}", "{}", "methods: expected keys and values with at least one entry, got {}"),
        ("about: a suite", "about: [a]", "mine.yaml: about: expected text"),
        ("name: mine", "name: ../mine", "mine.yaml: name: expected a name"),
        ("name: mine", "name: mine\nname: other", "key 'name' appears twice"),
        ("methods: {", "other_methods: {tent: {}}\nmethods: {", "other_methods: 'tent' is among methods, too"),
        ("tent: {lr: 1e-3}", "tent: 3", "mine.yaml: methods: tent: expected keys and values"),
        ("name: mine", "name: [", "mine.yaml: invalid YAML"),
    ],
)
def test_mistakes_are_named(old: str, new: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        suite.parse(GOOD.replace(old, new), "mine.yaml")


@pytest.mark.parametrize("text", ["", "- a\n- b", "just words"])
def test_content_that_is_not_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="expected keys and values"):
        suite.parse(text, "mine.yaml")


def test_for_each_makes_one_suite_per_value() -> None:
    text = GOOD.replace("name: mine", "for_each: {severity: [1, 3]}\nname: mine-{severity}").replace(
        "5}", '"{severity}"}'
    )
    found = suite.parse(text, "mine.yaml")
    assert [(s.name, s.data["severity"]) for s in found] == [("mine-1", 1), ("mine-3", 3)]


def test_other_methods_run_with_their_settings_when_named() -> None:
    (found,) = suite.parse(GOOD + "other_methods: {sar: {lr: 0.5}, slow: {method: sar, lr: 0.1}}", "mine.yaml")
    assert [spec.label for spec in specs(found, RunOptions(tasks=("fog",)))] == ["source", "tent"]
    named = specs(found, RunOptions(methods=("sar", "slow", "tent"), tasks=("fog",)))
    assert [(spec.method, spec.settings["lr"]) for spec in named] == [("sar", 0.5), ("sar", 0.1), ("tent", 0.001)]


@pytest.mark.parametrize("name", suite.names())
def test_settings_of_other_methods_exist(name: str) -> None:
    for label, given in suite.load(name).other_methods.items():
        method = given.get("method", label)
        rest = {key: value for key, value in given.items() if key != "method"}
        settings.check(method, registry.installed().load(method), rest)


@pytest.mark.parametrize("name", [name for name in suite.names() if "in1k" in suite.load(name).model])
def test_suites_of_imagenet_vits_have_the_settings_published_for_vits(name: str) -> None:
    """A method's own defaults depend on the kind of model, but for CoTTA's, which are its authors' for a ResNet."""
    found = suite.load(name)
    if not found.name.startswith("ablation"):
        assert found.settings("cotta") == {"lr": 0.002, "restore_probability": 0.0005}
    assert found.settings("foa") == ({"fitness_lambda": 0.2} if name == "imagenet-r" else {})


def test_unknown_suites_get_a_suggestion() -> None:
    with pytest.raises(UserError, match="unknown suite 'digits-c-6'; did you mean 'digits-c-"):
        suite.load("digits-c-6")


def test_a_missing_suite_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        suite.load(str(tmp_path / "none.yaml"))


def test_shipped_suites_open() -> None:
    assert {f"digits-c-{s}" for s in range(1, 6)} | {"digits-c-holdout"} <= set(suite.names())


@pytest.mark.parametrize(
    ("data", "tasks", "said"),
    [
        ({"kind": "digit-c", "severity": 1}, ["fog"], "unknown kind 'digit-c'; did you mean 'digits-c'"),
        ({"severity": 1}, ["fog"], "unknown kind"),
        ({"kind": "digits-c", "severity": 6}, ["fog"], "severity: expected 1 to 5, got 6"),
        ({"kind": "digits-c"}, ["fog"], "needs the option 'severity'"),
        ({"kind": "digits-c", "severity": 1, "size": 3}, ["fog"], "has no option 'size'"),
        ({"kind": "digits-c", "severity": 1}, ["frog"], "unknown task 'frog'; did you mean 'fog'"),
    ],
)
def test_data_blocks_are_checked(data: dict[str, object], tasks: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        open_dataset(data, tasks, None)


@pytest.mark.parametrize("name", suite.names())
def test_a_copy_reads_back_as_the_same_suite(name: str) -> None:
    (copied,) = suite.parse(schema.as_yaml(suite.load(name)), "copy.yaml")
    assert copied == suite.load(name)
    assert copied.notes == suite.load(name).notes


def test_a_copy_runs_from_its_file(cli: Cli, tmp_path: Path) -> None:
    status, shown, _ = cli("suite", "copy", "digits-c-5")
    assert status == 0
    (tmp_path / "mine.yaml").write_text(shown)
    assert suite.load(str(tmp_path / "mine.yaml")) == suite.load("digits-c-5")


def test_the_page_about_suite_files_is_up_to_date(cli: Cli) -> None:
    _, shown, _ = cli("suite", "schema")
    page = ROOT / "docs" / "suites.md"
    assert page.read_text() == shown, "run `tta-bench suite schema > docs/suites.md`"


@pytest.mark.parametrize("what", [("copy", "digits-c-9"), ("copy",), ()])
def test_bad_arguments_are_one_line(cli: Cli, what: tuple[str, ...]) -> None:
    status, _, said = cli("suite", *what)
    assert status == 2
    assert said.count("\n") == 1
