"""The runs of one `das run` know of each other by their directories alone: no caller of Prefect's API joins two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from e2e_runs import settings_for
from prefect.exceptions import ParameterTypeError

from flows.commands.runner import waiting
from flows.dry_run import dry_run
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.settings import keep_settings, load_settings, sibling_run
from flows.prefect_flows import detailed_dhca
from tasks.errors import Refused
from tasks.lifecycle.run_directory import SETTINGS, locked


def kept(settings: DetailedDhcaSettings, sibling: str | None = None) -> DetailedDhcaSettings:
    """Settings with the run directory that `das run` makes of them."""
    settings.directory.create()
    keep_settings(settings.directory, settings, sibling)
    return settings


def change(settings: DetailedDhcaSettings, **changes: Any) -> None:
    """Edit the settings that a run directory keeps."""
    path = settings.directory / SETTINGS
    all_kept = json.loads(path.read_text())
    all_kept["settings"] |= changes
    path.write_text(json.dumps(all_kept))


@pytest.fixture
def us(tmp_path: Path) -> DetailedDhcaSettings:
    """A run of the US, whose sibling run is of Puerto Rico."""
    kept(settings_for(tmp_path, "a-pr"), "a-us")
    return kept(settings_for(tmp_path, "a-us"), "a-pr")


def test_siblings_find_each_other(us: DetailedDhcaSettings) -> None:
    pr = us.sibling
    assert pr is not None
    assert (pr.run_id, pr.sibling, us.all_or_none) == ("a-pr", us, True)


@pytest.mark.parametrize("name", ["beside", "sibling", "sibling_run"])
@pytest.mark.parametrize("flow", [detailed_dhca, dry_run], ids=lambda flow: flow.name)
def test_no_parameter_of_a_flow_names_a_sibling(us: DetailedDhcaSettings, name: str, flow: Any, tmp_path: Path) -> None:
    """As a deployment gets it, whose caller names a folder that others prepared."""
    asked = json.loads(us.model_dump_json()) | {"run_id": "b-us"}
    flow.validate_parameters({"settings": asked})
    with pytest.raises(ParameterTypeError, match=rf"(?s){name}: there is no such key"):
        flow.validate_parameters({"settings": asked | {name: str(tmp_path / "prepared-by-others")}})


@pytest.mark.parametrize("sibling", ["/etc", "../a-pr", "..", "a-pr/..", "", ".hidden", "a pr"])
def test_a_sibling_is_named_by_its_run_id(us: DetailedDhcaSettings, sibling: str, tmp_path: Path) -> None:
    path = us.directory / SETTINGS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sibling_run": sibling}))
    if sibling:
        with pytest.raises(Refused, match="is not a run id"):
            _ = us.sibling
    else:
        assert us.sibling is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run_id": "b-pr"}, "is of run b-pr in the state folder"),
        ({"state": "/elsewhere"}, "is of run a-pr in the state folder /elsewhere: move it back there, or remove"),
        ({"ledger": "/elsewhere/ledger.sqlite"}, "a-pr, which was started together with run a-us, is now"),
        ({"account": "other"}, "another account"),
        ({"data": "/elsewhere"}, "another data"),
        ({"params": "/elsewhere", "second_account": True}, "another params, second_account"),
        ({"jurisdiction": "us"}, "the same jurisdiction"),
    ],
)
def test_a_sibling_whose_directory_keeps_something_else_is_refused(
    us: DetailedDhcaSettings, changes: dict[str, Any], reason: str
) -> None:
    change(settings_for(Path(us.state).parent, "a-pr"), **changes)
    with pytest.raises(Refused, match=reason):
        _ = us.sibling


def test_a_run_keeps_its_sibling_until_it_begins_with_other_settings(us: DetailedDhcaSettings) -> None:
    keep_settings(us.directory, us)
    assert sibling_run(us.directory) == "a-pr"
    other = us.model_copy(update={"estimates": True})
    keep_settings(us.directory, other)
    assert (sibling_run(us.directory), load_settings(us.directory), other.all_or_none) == (None, other, False)


def test_a_sibling_that_is_over_is_waited_for_no_longer(us: DetailedDhcaSettings, tmp_path: Path) -> None:
    pr = us.sibling
    assert pr is not None
    with locked(pr.directory):
        assert waiting(pr) == ""  # another process is at it
    assert waiting(pr) == ("PR, begun with this run, is not released yet, and nothing was charged: " + pr.resume)
    (pr.directory / SETTINGS).unlink()
    pr.directory.path.rename(tmp_path / "gone")
    assert us.sibling is None
    assert waiting(pr) == ""
