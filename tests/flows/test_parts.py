"""A run over the US and Puerto Rico has two parts, which either part's directory names."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from e2e_runs import das, settings_for

from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.settings import keep_settings, load_settings
from privacy.accounting.composition import spend
from privacy.accounting.ledger import Account, Ledger, Request
from tasks.errors import Refused
from tasks.lifecycle.commit import destroy_run
from tasks.lifecycle.run_directory import SETTINGS


@pytest.fixture
def us(tmp_path: Path) -> DetailedDhcaSettings:
    """The first part of a run over both, whose directories are there."""
    settings = settings_for(tmp_path, "a-us", both=True)
    for part in settings.parts:
        part.directory.create()
        keep_settings(part.directory, part)
    return settings


@pytest.mark.parametrize("run_id", ["a-us", "a-pr", "a"])
def test_every_part_names_both(tmp_path: Path, run_id: str) -> None:
    settings = settings_for(tmp_path, run_id, both=True, jurisdiction="pr" if run_id == "a-pr" else "us")
    assert [(part.run_id, part.jurisdiction) for part in settings.parts] == [("a-us", "us"), ("a-pr", "pr")]
    assert all(part.parts == settings.parts for part in settings.parts)
    assert settings_for(tmp_path, "a-us").parts == (settings_for(tmp_path, "a-us"),)


def test_a_run_is_resumed_with_every_part_that_is_not_over(us: DetailedDhcaSettings) -> None:
    _, pr = us.parts
    assert (us.without_ended(), pr.without_ended()) == (us, pr)
    destroy_run(us.directory)
    assert pr.without_ended().parts == (pr.model_copy(update={"both": False}),)


@pytest.mark.parametrize("changes", [{"data": "/elsewhere"}, {"account": "other"}, {"ledger": "/elsewhere"}])
def test_a_run_is_resumed_without_a_part_that_began_anew_with_other_settings(
    us: DetailedDhcaSettings, changes: dict[str, Any]
) -> None:
    _, pr = us.parts
    keep_settings(pr.directory, pr.model_copy(update=changes))
    assert us.without_ended().parts == (us.model_copy(update={"both": False}),)
    assert load_settings(us.directory) == us


def test_resuming_a_part_that_is_released_names_the_part_that_is_not(
    us: DetailedDhcaSettings, capfd: pytest.CaptureFixture[str]
) -> None:
    ledger, resume = Ledger(Path(us.ledger)), ("run", "--resume", "a-us", "--runs-folder", us.runs_folder)
    ledger.open_account(Account("census", "zcdp", Fraction(1)))
    ledger.reserve(Request("a-us", "census", ("01",), spend("zcdp", [Fraction(1)]), "i", "c", 1, "r"), lambda: "secret")
    ledger.seal("a-us", "digest")
    ledger.release("a-us", "digest")
    destroy_run(us.directory)
    assert das(*resume, "--ledger", us.ledger) == 1
    (line,) = {line for line in capfd.readouterr().err.splitlines() if "a-us" in line}
    assert line.endswith(f"run a-us is released, but a-pr is not: continue with {us.parts[1].resume}")
    destroy_run(us.parts[1].directory)
    assert das(*resume, "--ledger", us.ledger) == 0


@pytest.mark.parametrize("changes", [{"run_id": "b-pr"}, {"runs_folder": "/elsewhere"}])
def test_a_part_whose_directory_keeps_another_run_is_refused(us: DetailedDhcaSettings, changes: dict[str, Any]) -> None:
    path = us.parts[1].directory / SETTINGS
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"settings": kept["settings"] | changes}))
    with pytest.raises(Refused, match=r"in the runs folder .*: move it back there, or remove"):
        us.without_ended()
