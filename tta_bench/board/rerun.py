"""Runs cells of a submission again, for maintainers, and notes it in submission.yaml. Needs torch and the method."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Literal

from tta_bench.board.submission import FILE, Entry, Rerun, Submission, write_entry
from tta_bench.checked import validate
from tta_bench.errors import UserError
from tta_bench.runs.site import Site
from tta_bench.verify.findings import Audit
from tta_bench.verify.folders import Found

EXACT = "bit for bit"


def run_again(found: Sequence[Found], count: int, seed: int, site: Site) -> Audit:
    """Rerun randomly chosen cells; not those of Source, whose reference is checked anyway."""
    from tta_bench.papers.baseline import BASELINE
    from tta_bench.verify.rerun import rerun

    audit = Audit()
    adapted = [pair for pair in found if pair[0].cell.spec.method != BASELINE]
    rerun(adapted, count, seed, site, audit)
    return audit


def result_of(audit: Audit) -> tuple[int, Literal["bit for bit", "within tolerance", "differs"]]:
    """How many cells ran again, and how their predictions compare."""
    ran = [finding for finding in audit.findings if finding.check == "rerun" and finding.verdict != "not checked"]
    if not ran:
        reasons = [finding.text for finding in audit.findings] or ["there is none"]
        raise UserError(f"no cell could run again: {reasons[0]}")
    if audit.failures:
        return len(ran), "differs"
    return len(ran), "bit for bit" if all(EXACT in finding.text for finding in ran) else "within tolerance"


def note_rerun(submission: Submission, audit: Audit, by: str, device_name: str) -> Rerun:
    """Add "run again by …" with date and machine to submission.yaml."""
    cells, result = result_of(audit)
    content = {
        "by": by,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": f"{device_name}, {platform.system()} {platform.machine()}",
        "cells": cells,
        "result": result,
    }
    made = validate.read(Rerun, content, "--by")
    changed: Entry = replace(submission.entry, reruns=(*submission.entry.reruns, made))
    write_entry(changed, submission.folder / FILE)
    return made
