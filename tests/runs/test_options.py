"""The command line and `tta_bench.run` take the same options: one list, compared by introspection."""

from __future__ import annotations

import argparse
import inspect
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import tta_bench
from tests.support.cli import Cli
from tests.support.records import make_cell
from tta_bench.checked.options import default_of, flag_of
from tta_bench.cli.main import parser
from tta_bench.errors import UserError
from tta_bench.records.asked import Asked
from tta_bench.records.cell import unequal_parts
from tta_bench.records.spec import CellSpec
from tta_bench.records.store import Store
from tta_bench.runs.options import NAMES, RunOptions, errors_name_keywords, scenario_settings
from tta_bench.runs.site import Site
from tta_bench.streams.scenarios import LabelShift

ONLY_IN_PYTHON = {"watcher"}  # a progress callback


def of_parser(verb: str) -> dict[str, argparse.Action]:
    verbs = parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    return {action.dest: action for action in verbs[verb]._actions if action.dest != "help"}  # type: ignore[call-overload, index]


def keywords() -> dict[str, Any]:
    """The keywords of `tta_bench.run` with their defaults, those made when it is called included."""
    found = {name: parameter.default for name, parameter in inspect.signature(tta_bench.run).parameters.items()}
    made = {name: default_of(f) for name, f in RunOptions.__dataclass_fields__.items() if name in NAMES}
    return {name: made.get(name, default) for name, default in found.items() if name not in ONLY_IN_PYTHON}


def test_the_command_and_the_call_take_the_same_options_with_the_same_defaults() -> None:
    assert {name: action.default for name, action in of_parser("run").items()} == keywords()


def test_options_reach_the_command_line_under_their_own_names() -> None:
    for name, action in of_parser("run").items():
        assert action.option_strings == [flag_of(name)]
        assert action.help


def test_methods_and_suite_are_the_only_positional_arguments() -> None:
    kinds = inspect.signature(tta_bench.run).parameters.values()
    positional = [p.name for p in kinds if p.kind is not p.KEYWORD_ONLY]
    assert positional == ["methods", "suite"]


def test_check_and_tune_take_their_options_from_the_list() -> None:
    run, check, tune = (of_parser(verb) for verb in ("run", "check", "tune"))
    assert check.keys() - run.keys() == {"every_image", "contract"}
    assert tune.keys() - run.keys() == {"method", "grid", "criterion", "write"}
    assert {name for name in check.keys() & run.keys() if check[name].default != run[name].default} == set()


GIVEN = {
    "methods": ("tent,sar", ["tent", "sar"]),
    "suite": ("digits-c-5", "digits-c-5"),
    "tasks": ("fog,snow", ("fog", "snow")),
    "model": ("digits-vit", "digits-vit"),
    "settings": ("tuned.yaml", Path("tuned.yaml")),
    "set": ("tent.lr=0.1", {"tent": {"lr": 0.1}}),
    "seeds": ("0,3", [0, 3]),
    "scenario": ("label-shift", LabelShift()),
    "imbalance": ("9", 9.0),
    "remember": ("256,every=64", "256,every=64"),
    "limit": ("64", 64),
    "batch_size": ("16", 16),
    "stream_speed": ("2", 2),
    "clock": ("counts", "counts"),
    "busy": ("source", "source"),
    "backward_cost": ("1.5", 1.5),
    "amp": ("bf16", "bf16"),
    "compile": (None, True),
    "tf32": (None, True),
    "deterministic": (None, True),
    "device": ("cuda", "cuda"),
    "readers": ("3", 3),
    "cache": ("/c", Path("/c")),
    "data_root": ("/d", "/d"),
    "time_limit": ("2h", 7200),
    "in_process": (None, True),
    "out": ("run", "run"),
    "beside": ("published", "published"),
    "fresh": (None, True),
    "on": ("slurm", "slurm"),
    "jobs": ("4", 4),
    "gpus": ("0,1", (0, 1)),
    "slurm": ("partition=gpu,time=1:00:00", {"partition": "gpu", "time": "1:00:00"}),
    "gpus_per_cell": ("0.5", 0.5),
    "retries": ("0", 0),
    "detach": (None, True),
}


def parsed(given: dict[str, str | None]) -> RunOptions:
    words = [word for name, text in given.items() for word in (flag_of(name), *([text] if text is not None else []))]
    return RunOptions.of(vars(parser().parse_args(["run", *words])))


def test_text_and_values_give_the_same_options() -> None:
    others = {"model_args", "orders", "difficulty", "length", "laps"}  # they exclude some of the above
    assert GIVEN.keys() == {*NAMES, *scenario_settings()} - others
    by_text = parsed({name: text for name, (text, _) in GIVEN.items()})
    assert by_text == RunOptions.of({name: value for name, (_, value) in GIVEN.items()})
    assert by_text == RunOptions.of({name: True if text is None else text for name, (text, _) in GIVEN.items()})
    assert by_text.time_limit == 7200
    assert by_text.scenario == LabelShift(9.0)
    assert parsed({"orders": "3"}) == RunOptions(orders=3)
    assert parsed({"orders": "3"}).seeds == (0, 1, 2)


def test_a_folder_notes_the_options_of_a_call(small_suite: Path, tmp_path: Path) -> None:
    asked = RunOptions.of({name: value for name, (_, value) in GIVEN.items()})
    assert RunOptions.of(json.loads(json.dumps(asked.to_json()))) == asked
    assert RunOptions().to_json() == {}
    tta_bench.run({"source": {}}, str(small_suite), tasks="contrast", limit=8, out=tmp_path / "run")
    (command,) = Store.open(tmp_path / "run").past_commands()
    noted = RunOptions.of(command.options)
    assert (noted.methods, noted.tasks, noted.limit) == (("source",), ("contrast",), 8)


class WithNewerOption(CellSpec):
    newer = {"label_smoothing": 0.1}  # type: ignore[assignment]  # noqa: RUF012


def test_an_option_of_cells_is_in_keys_only_if_it_is_not_at_its_default() -> None:
    cell = make_cell("tent")
    assert (cell.spec.mode, cell.spec.newer) == ({}, {})
    fast = replace(cell.spec, amp="bf16", compile=True, limit=8)
    assert (fast.mode, fast.newer) == ({"amp": "bf16", "compile": True}, {})
    newer = replace(cell, spec=WithNewerOption(**vars(cell.spec)))
    assert newer.flat() == {**cell.flat(), "label_smoothing": 0.1}
    assert newer.key != cell.key
    assert unequal_parts(newer, cell) == ["label_smoothing"]


def test_none_is_the_default() -> None:
    assert RunOptions(**dict.fromkeys(NAMES)) == RunOptions()


def test_requests_and_sites_get_their_options_by_name(tmp_path: Path) -> None:
    assert set(Site.__dataclass_fields__) | set(Asked.__dataclass_fields__) < set(NAMES)
    asked = RunOptions(cache=tmp_path, readers=2, time_limit=9, device="cpu", in_process=False, data_root=tmp_path)
    site = Site(cache=tmp_path, readers=2, time_limit=9, device="cpu", in_process=False, data_root=tmp_path)
    assert asked.site == site == Site(**asdict(site))


BAD = [
    ("limit", "0"),
    ("seeds", "a"),
    ("seeds", "1,1"),
    ("gpus", "0,0"),
    ("jobs", "two"),
    ("stream_speed", "-1"),
    ("gpus_per_cell", "0"),
    ("time_limit", "2 h"),
    ("slurm", "Partition=gpu"),
    ("readers", "-1"),
]


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_gets_the_same_line_on_both_sides(cli: Cli, name: str, text: str) -> None:
    with pytest.raises(UserError) as caught:
        tta_bench.run(**{name: text})
    said = str(caught.value)
    assert said.startswith(f"{name}: expected") or "listed twice" in said
    status, _, err = cli("run", flag_of(name), text)
    assert status == 2
    assert f"argument {flag_of(name)}: {said.removeprefix(f'{name}: ')} (see" in err


def test_errors_name_keywords_outside_of_commands() -> None:
    with pytest.raises(UserError) as caught, errors_name_keywords():
        raise UserError("--time-limit 3: see `run --time-limit`, --no-such-option and choose another --out")
    assert str(caught.value) == "time_limit 3: see `run --time-limit`, --no-such-option and choose another out"
