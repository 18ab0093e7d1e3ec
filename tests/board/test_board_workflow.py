"""The workflows of the board: strangers' pull requests reach no secret, and none of their code runs."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.checkout import ROOT

FOLDER = ROOT / ".github" / "workflows"


def workflow(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text())
    return found


def steps(content: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in content["jobs"].values() for step in job["steps"]]


def test_the_check_has_a_read_only_token_and_no_secret() -> None:
    content = workflow("board.yml")
    assert [*content[True]] == ["pull_request"], "YAML reads `on` as true; pull_request_target would have secrets"
    assert content["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in content["jobs"].values())
    assert "secrets." not in (FOLDER / "board.yml").read_text()


def test_the_check_runs_the_code_of_the_base_branch() -> None:
    checkouts = [step for step in steps(workflow("board.yml")) if step.get("uses", "").startswith("actions/checkout")]
    assert [step["with"]["ref"] for step in checkouts] == ["${{ github.event.pull_request.base.sha }}"]
    assert not any(step["with"]["persist-credentials"] for step in checkouts)
    assert not re.search(r"git (checkout|switch|merge|reset|pull)", (FOLDER / "board.yml").read_text())


@pytest.mark.parametrize("name", ["board.yml", "board-comment.yml"])
def test_no_text_of_a_stranger_becomes_part_of_a_script(name: str) -> None:
    assert all("${{" not in step.get("run", "") for step in steps(workflow(name)))


def test_the_job_that_comments_checks_out_nothing() -> None:
    content = workflow("board-comment.yml")
    assert [*content[True]] == ["workflow_run"]
    assert content[True]["workflow_run"]["workflows"] == [workflow("board.yml")["name"]]
    assert content["permissions"] == {}
    (job,) = content["jobs"].values()
    assert job["permissions"] == {"actions": "read", "pull-requests": "write"}
    uses = [step["uses"].partition("@")[0] for step in steps(content) if "uses" in step]
    assert uses == ["actions/download-artifact"]
    script = steps(content)[-1]["run"]
    assert not re.search(r"\b(pip|python|npm|tta-bench|source|eval|bash)\b", script)
    assert "head -c 20" in script
    assert "headRefOid" in script, "the number must be that of the commit that was checked"


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_only_the_data_files_of_a_submission_are_taken(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "base")
    base = git(tmp_path, "rev-parse", "HEAD")
    mine = tmp_path / "results" / "board" / "mine"
    mine.mkdir(parents=True)
    (mine / "submission.yaml").write_text("id: mine")
    (mine / "run.zip").symlink_to("/etc/passwd")
    (tmp_path / "setup.py").write_text("raise SystemExit('ran')")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "a submission")
    take = runpy.run_path(str(ROOT / ".github" / "board_files.py"))["main"]
    assert take(base, "HEAD", str(tmp_path / "incoming")) == 0
    assert sorted(path.name for path in (tmp_path / "incoming").rglob("*")) == ["mine", "submission.yaml"], "no link"
    (mine / "conftest.py").write_text("raise SystemExit('ran')")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "and code")
    assert take(base, "HEAD", str(tmp_path / "again")) == 1
    assert not [*(tmp_path / "again").rglob("*.py")]
