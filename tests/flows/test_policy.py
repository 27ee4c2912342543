"""A worker's policy: what a caller of Prefect's API must not choose, for every flow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from e2e_runs import settings_for

from flows.dry_run import dry_run
from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.cluster import ClusterSettings
from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.execution.policy import POLICY, under_policy
from flows.execution.top_down_settings import TopDownSettings
from flows.geographic_spine import SpineRun, geographic_spine
from flows.prefect_flows import bottom_up, detailed_dhca, top_down
from tasks.lifecycle.errors import Refused

Fix = Callable[..., None]
FIXED = "account is 'mine', and the policy of this worker fixes it at 'census': leave it out"


@pytest.fixture
def fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fix:
    """Fix settings, in the policy that the environment names."""
    monkeypatch.setenv(POLICY, str(tmp_path / "policy.json"))
    return lambda **policy: (tmp_path / "policy.json").write_text(json.dumps(policy)) and None


def test_a_setting_left_out_gets_the_value_and_another_is_refused(tmp_path: Path, fix: Fix) -> None:
    settings = settings_for(tmp_path, cluster={"workers": 2})
    fix(approval=True, account="census", cluster={"cluster_class": None, "memory_limit": "3GiB"}, **{"top-down": 1})
    fixed = under_policy(settings, "detailed-dhca")
    expected = {"approval": True, "cluster": ClusterSettings(workers=2, memory_limit="3GiB")}
    assert fixed == settings.model_copy(update=expected)
    for policy, said in (
        ({"second_account": True, "account": "other"}, "account is 'census', and the policy of this worker fixes"),
        ({"cluster": {"workers": None}}, "workers is 2, and the policy of this worker fixes it at None"),
        ({"detailed-dhca": {"data": "/srv/data"}}, "data is .*, and the policy of this worker fixes it at '/srv/data'"),
    ):
        fix(**policy)
        with pytest.raises(Refused, match=said):
            under_policy(settings, "detailed-dhca")


@pytest.mark.parametrize("policy", ["", "{", "[]", '{"acount": "x"}', '{"detailed-dhca": {"x": 1}}', '{"approval": 9}'])
def test_a_policy_that_is_none_refuses_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    monkeypatch.setenv(POLICY, str(tmp_path / "policy.json"))
    if policy:
        (tmp_path / "policy.json").write_text(policy)
    with pytest.raises(Refused, match=r"the policy of this worker, .*policy\.json, cannot be used: "):
        under_policy(settings_for(tmp_path), "detailed-dhca")


def test_the_example_of_a_policy_fixes_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POLICY, str(Path(__file__).resolve().parents[2] / "deploy/policy.json"))
    out, census = "/srv/releases/{run}", "/srv/census"
    for settings in (
        DetailedDhcaSettings(params=f"{census}/params", data=f"{census}/data", out=out, jurisdiction="us"),
        TopDownSettings(data=f"{census}/top-down", out=out),
        BottomUpSettings(table="/t", domain="/d", epsilon="1", out=out),
    ):
        fixed = under_policy(settings, settings.SYSTEM)
        assert (fixed.approval, fixed.account, fixed.second_account) == (True, "census-2020", False)
        assert fixed.ledger.startswith(fixed.state)


def settings_of(folder: Path) -> dict[Any, Any]:
    common: dict[str, Any] = {"out": str(folder / "out"), "state": str(folder / "state"), "account": "mine"}
    detailed = settings_for(folder, account="mine")
    return {
        detailed_dhca: detailed,
        dry_run: detailed,
        top_down: TopDownSettings(data=str(folder), **common),
        bottom_up: BottomUpSettings(table=str(folder / "t"), domain=str(folder / "d"), epsilon="1", **common),
    }


@pytest.mark.usefixtures("prefect_server")
def test_every_flow_is_under_the_policy(tmp_path: Path, fix: Fix) -> None:
    fix(account="census", cluster={"cluster_class": None})
    for flow, settings in settings_of(tmp_path).items():
        state = flow(settings, return_state=True)
        assert (state.name, state.message) == ("Refused", f"refused: {FIXED}"), flow.name
    assert not (tmp_path / "state").exists(), "nothing was begun"
    run = SpineRun(geography=str(tmp_path), out=str(tmp_path / "spine"))
    with pytest.raises(Refused, match="cluster_class is 'os:system', and the policy"):
        geographic_spine(run, ClusterSettings(cluster_class="os:system"))
    fix(out="/srv/{run}", **{"geographic-spine": {"geography": "/srv/geography"}})
    with pytest.raises(Refused, match=r"geography is .*, and the policy of this worker fixes it at '/srv/geography'"):
        geographic_spine(run)
