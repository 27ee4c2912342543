"""What ends a run: only a commit or `das runs discard` removes a directory from which noise may have been drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from e2e_runs import das, settings_for

from flows.execution.settings import keep_settings
from privacy.accounting.composition import spend
from privacy.accounting.ledger import Account, Ledger, Request
from tasks.errors import Refused
from tasks.lifecycle.authorization import AUTHORIZATION, SECRET, TRUTH, mark_repetition, may_draw
from tasks.lifecycle.commit import destroy_run, end_run, end_truth, mark_truth
from tasks.lifecycle.reservation import Charging, Claim, authorize
from tasks.lifecycle.run_directory import SETTINGS, STAGES, RunDirectory
from tasks.lifecycle.staging import staging
from tasks.top_down.published.estimate import end_sources

ENDS: dict[str, Callable[[RunDirectory, Path], object]] = {
    "a run": lambda run, out: end_run(run, (out, "us")),
    "a truth": lambda run, out: end_truth(run),
    "an estimate": lambda run, out: end_sources([run], out),
}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run directory with what stages wrote, and a file that is staged."""
    settings = settings_for(tmp_path, "run-us")
    run = RunDirectory(settings.directory.path)
    run.create()
    keep_settings(run, settings)
    for name in STAGES:
        (run / name).mkdir()
        (run / name / "part").touch()
    (run / TRUTH).write_text(json.dumps({"out": str(tmp_path / "out"), "region": "us"}))
    staged = staging(run, tmp_path / "out", "us")
    staged.mkdir(parents=True)
    (staged / "table").touch()
    return run


def everything(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.name not in ("lock", ".run-directories")}


@pytest.mark.parametrize("end", ENDS)
def test_a_run_without_secret_is_removed(run: RunDirectory, tmp_path: Path, end: str) -> None:
    ENDS[end](run, tmp_path / "out")
    assert not run.path.exists()
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("name", [SECRET, AUTHORIZATION])
@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_may_draw_is_kept_whole(run: RunDirectory, tmp_path: Path, end: str, name: str) -> None:
    (run / name).touch()
    before = everything(tmp_path)
    with pytest.raises(Refused, match=f"das runs discard {run.id}"):
        ENDS[end](run, tmp_path / "out")
    assert everything(tmp_path) == before
    destroy_run(run)
    assert not run.path.exists()


@pytest.mark.parametrize("name", [SECRET, AUTHORIZATION])
def test_stages_of_a_run_that_may_draw_are_not_dropped_for_other_settings(
    run: RunDirectory, tmp_path: Path, name: str
) -> None:
    (run / name).touch()
    with pytest.raises(Refused, match="began with another estimates"):
        keep_settings(run, settings_for(tmp_path, "run-us", estimates=True))
    assert {path.name for path in run.path.iterdir() if path.is_dir()} == set(STAGES)


@pytest.mark.parametrize("end", ["refused", "discarded", "refused without its ledger's journal"])
@pytest.mark.parametrize("marked", [False, True])
def test_a_run_of_another_runs_folder_keeps_what_it_staged_and_its_charge(
    run: RunDirectory, tmp_path: Path, marked: bool, end: str
) -> None:
    """As where one census is run from two runs folders: both have one id, one OUT and one ledger."""
    settings, staged = settings_for(tmp_path, "run-us"), staging(run, tmp_path / "out", "us")
    for name in (TRUTH, SETTINGS):
        (run / name).unlink()
    keep_settings(run, settings)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(Account("census", "zcdp", Fraction(1)))
    if marked:
        ledger.enter_marked(run.id, {"i"})
    else:
        asked = Request(run.id, "census", ("44",), spend("zcdp", [Fraction(1)]), "i", "c", 1, ("r",))
        ledger.reserve(asked, lambda: "secret")
    if end == "discarded":
        assert das("runs", "discard", run.id, "--runs-folder", run.runs_folder) == 0
    elif end == "refused":
        settings.end_refused()
    else:
        ledger.journal.unlink()
        settings.end_refused()
    assert not run.path.exists()
    assert (staged / "table").exists()
    if end in ("refused", "discarded"):
        assert [row.status for row in ledger.rows("census")] == ["reserved"] * (not marked)


def test_repetitions_have_a_secret_and_are_removed_but_never_charged(run: RunDirectory, tmp_path: Path) -> None:
    mark_repetition(run)
    (run / SECRET).touch()
    assert not may_draw(run)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(Account("census", "zcdp", Fraction(1)))
    with pytest.raises(Refused, match="never charged"):
        authorize(Charging("census", ledger.path), Claim(run, ("44",), spend("zcdp", [Fraction(1)]), "c", Digests()))
    assert ledger.rows("census") == []
    end_run(run)
    assert not run.path.exists()


class Digests:
    """What a validation returns of unmarked data."""

    mark = None
    input_digest = "i"
    records_digests = ("r",)


@pytest.mark.parametrize("mark", [mark_repetition, lambda run: mark_truth(run, Path("out"), "us")])
@pytest.mark.parametrize("name", [SECRET, AUTHORIZATION])
def test_a_run_that_may_draw_is_never_marked_as_one_that_does_not(
    run: RunDirectory, mark: Callable[[RunDirectory], None], name: str
) -> None:
    (run / name).touch()
    with pytest.raises(Refused, match="may draw noise"):
        mark(run)
    assert may_draw(run)
