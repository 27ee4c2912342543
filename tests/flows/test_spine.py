"""`das spine` and the flow geographic_spine."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from e2e_runs import open_account, settings_for
from spine_cases import blocks_table, write_grfc

from tasks.errors import Refused
from tasks.lifecycle.workers import Workers
from tests.flows.conftest import Das, Refuse, printed


@pytest.fixture(scope="module")
def grfc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_grfc(tmp_path_factory.mktemp("geography") / "GRF-C.txt", blocks_table(7, (1, 55), 200))


def test_the_command_prints_tables_or_json(grfc: Path, tmp_path: Path) -> None:
    text = printed("spine", grfc, tmp_path / "one", "--settings", "pl94-units", "--only-state", 55)
    assert "Off-spine entity distance" in text
    assert "which blocks are occupied is not known" in text
    options = ("--settings", "dhc-units", "--set", "fanout_cutoff=3", "--json")
    answer = json.loads(printed("spine", grfc, tmp_path / "two", *options))
    assert answer["blocks"] == 400
    assert answer["cost"] == "15401/2000"
    manifest = json.loads((tmp_path / "two" / "spine.json").read_text())
    assert manifest["settings"]["fanout_cutoff"]["value"] == 3


def test_the_command_refuses_bad_words(grfc: Path, tmp_path: Path, das: Das, refused: Refuse) -> None:
    assert das("spine", grfc, tmp_path / "x", "--set", "fanout_cutoff")[0] == 2
    refused("pure DP needs a budget", "spine", grfc, tmp_path / "x", "--definition", "puredp")
    assert not (tmp_path / "x").exists()


@pytest.mark.e2e
@pytest.mark.ci
def test_the_flow_alone_and_on_a_cluster(grfc: Path, tmp_path: Path, no_server: None) -> None:
    from flows.execution.cluster import ClusterSettings
    from flows.geographic_spine import SpineRun, geographic_spine

    alone = geographic_spine(SpineRun(geography=str(grfc), out=str(tmp_path / "alone")))
    on = ClusterSettings(workers=2)
    spread = geographic_spine(SpineRun(geography=str(grfc), out=str(tmp_path / "spread"), cluster=on))
    assert alone["geounits"] == spread["geounits"]
    assert (tmp_path / "alone" / "entities.csv").read_bytes() == (tmp_path / "spread" / "entities.csv").read_bytes()
    with pytest.raises(Refused, match="is not empty"):
        geographic_spine(SpineRun(geography=str(grfc), out=str(tmp_path / "alone")))


@pytest.mark.e2e
def test_a_run_that_fails_does_not_wait_for_its_spine(
    example: Path, tmp_path: Path, no_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import detailed_dhca as run
    from flows.execution.cluster import ClusterSettings
    from flows.prefect_flows import detailed_dhca

    ended: list[str] = []

    def slow(_run: object, workers: Workers, **_: object) -> str:
        patience = time.monotonic() + 30
        while workers.client.status == "running" and time.monotonic() < patience:
            time.sleep(0.05)
        ended.append(workers.client.status)
        return "built"

    def refuse(*_: object, **__: object) -> None:
        raise Refused("a level fails")

    monkeypatch.setattr(run, "build_spine", slow)
    monkeypatch.setattr(run, "measure_totals", refuse)
    open_account(tmp_path)
    inputs = {"params": example / "params", "data": example / "data", "spine": True}
    with pytest.raises(Refused, match="a level fails"):
        detailed_dhca(settings_for(tmp_path, **inputs, cluster=ClusterSettings(workers=1)))
    assert ended[0] in ("closing", "closed")  # by the end of the run, not the other way round
