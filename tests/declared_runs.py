"""Runs of declarations in this process, for the tests: measured, estimated, staged, and estimated again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from declarations import count
from dhca_inputs import HERE

from privacy.accounting.ledger import Account, Ledger
from spine.geography import IntArray
from tasks.lifecycle.reservation import Charging, authorize
from tasks.lifecycle.staging import staging
from tasks.top_down.declared.measurements import write_declared_layout
from tasks.top_down.declared.public_tables import read_declared
from tasks.top_down.declared.release import write_release
from tasks.top_down.declared.source import DeclaredRun
from tasks.top_down.declared.wide import estimate
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.measure import claim
from tasks.top_down.release.measurements import write_measurements
from tasks.top_down.release.stage_release import stage_release


def declare(folder: Path, name: str, raw: dict[str, Any]) -> str:
    (folder / f"{name}.json").write_text(json.dumps(raw), "utf-8")
    return str(folder / f"{name}.json")


def measured(folder: Path, name: str, declaration: str, records: str, unit: str = "person") -> DeclaredRun:
    """A run that is charged and may draw. unit: of the account."""
    run = DeclaredRun(folder / f"runs/{name}")
    run.create()
    ledger = folder / "ledger.sqlite"
    if not ledger.exists():
        Ledger(ledger).open_account(Account("census", "zcdp", Fraction(10**9), unit))
    count(run, str(folder / records), read_declared(declaration)[0])
    authorize(Charging("census", ledger), claim(run, HERE))
    return run


def released(run: DeclaredRun, folder: Path) -> Path:
    estimate(run, HERE)
    return stage(run, folder)


def stage(run: DeclaredRun, folder: Path) -> Path:
    write_measurements(run, HERE, folder, write_declared_layout)
    stage_release(run, HERE, folder, write_release)
    return staging(run, folder, "declared")


def histograms(run: DeclaredRun) -> list[tuple[bytes, bytes, bytes]]:
    found = [load_estimates(run, run.branch, level) for level in run.declared.hierarchy.spine.levels]
    return [(own.starts.tobytes(), own.cell.tobytes(), own.count.tobytes()) for own in found]


def again(run: DeclaredRun, folder: Path, read: Callable[..., IntArray] | None = None) -> DeclaredRun:
    """The run estimated again; read: instead of drawing, in a directory without the records' histograms."""
    other = type(run)(folder / "runs/again")
    shutil.copytree(run.path, other.path, ignore=shutil.ignore_patterns("noisy", *(["counts"] if read else [])))
    if read:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DeclaredRun, "read_at", lambda self: read)
            estimate(other, HERE)
    else:
        estimate(other, HERE)
    return other


def all_answers(run: DeclaredRun) -> dict[tuple[str, str], IntArray]:
    """All answers of all geounits, drawn and kept."""
    measuring, spine = run.answers(run.branch), run.declared.hierarchy.spine
    drawn = {level: measuring(at, 0, len(spine.starts[at])).answers for at, level in enumerate(spine.levels)}
    return {(level, query): own for level, queries in drawn.items() for query, own in queries.items()}


def share_read_of_all_noise(run: DeclaredRun, folder: Path) -> float:
    """The share of all answers that estimation reads.

    Its estimates are those of all answers, drawn and kept, and of others where it does not read, both without the
    records: estimation has no way to them.
    """
    answers = all_answers(run)
    seen = {key: np.zeros(own.shape, bool) for key, own in answers.items()}

    def read(level: str, query: str, geounits: IntArray, coordinates: IntArray) -> IntArray:
        seen[level, query][geounits, coordinates] = True
        return answers[level, query][geounits, coordinates]

    assert histograms(again(run, folder / "eager", read)) == histograms(run)
    share = sum(own.sum() for own in seen.values()) / sum(own.size for own in seen.values())
    for key, own in answers.items():
        own[~seen[key]] = 10**6
    assert histograms(again(run, folder / "other", read)) == histograms(run)
    return float(share)
