"""Options at the ends of what can be typed: the right answer within seconds, or one line that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.execution.bottom_up_settings import BottomUpSettings
from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.execution.settings import keep_settings, load_settings
from flows.execution.top_down_settings import TopDownSettings
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.run_directory import RunDirectory

Das = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("bottom-up noise --epsilon 1e-9", "the noise is too wide"),
        ("tune --total 1e-9", "the noise is too wide for the sampler"),
        ("tune --total 1e-9 --definition puredp", "the noise is too wide for the sampler"),
        ("tda run nowhere out --persons-budget 1/0", "--persons-budget 1/0: is not a number"),
        ("tda run nowhere out --units-budget 1e-90", "--units-budget 1e-90: it is a number from 1e-09"),
        ("runs list --state s3://bucket/state", "s3://bucket/state is a URL"),
        ("run params data out --state s3://bucket/state", "s3://bucket/state is a URL"),
        ("run params data out --ledger=", "--ledger .: it is no file"),
        ("accuracy params data out --ledger=", "--ledger .: it is no file"),
        ("bottom-up curve table domain --epsilon 1 --ledger=/dev/null", "--ledger /dev/null: it is no file"),
    ],
)
def test_one_line_says_what_is_wrong(
    das: Das, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = das(*words.split())
    (line,) = err.strip().splitlines()
    assert (code, out) == (1, "")
    assert line.startswith("refused: ")
    assert says in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ['{"block": 7}', '{"block": null}', "[1]", "null"])
def test_a_column_mapping_that_is_none_is_refused_in_one_line(das: Das, tmp_path: Path, given: str) -> None:
    columns = tmp_path / "columns.json"
    columns.write_text(given)
    code, _, err = das("spine", "nowhere.csv", tmp_path / "out", "--columns", columns)
    (line,) = err.strip().splitlines()
    assert code == 1
    assert line.startswith(f"refused: {columns}")


def test_a_margin_of_a_trillion_cells_is_proved_at_once(das: Das) -> None:
    code, out, _ = das("bottom-up", "noise", "--epsilon", "1", "--cells", 10**12, "--json")
    assert code == 0
    # the deviation is sqrt(2 e^-1 cells) / (1 - e^-1) = 1,356,964.7, and 1.959964 of it the normal margin
    assert json.loads(out)[0]["margins"][0]["margin"] == 2659598


def test_a_run_directory_is_of_one_system(tmp_path: Path) -> None:
    """Two systems would take each other's stages for their own."""
    common = {"out": str(tmp_path / "out"), "state": str(tmp_path), "run_id": "run"}
    detailed = DetailedDhcaSettings(params="params", data="data", jurisdiction="us", **common)
    others = [
        TopDownSettings(data="data", **common),
        BottomUpSettings(table="table", domain="domain", epsilon="1", **common),
    ]
    run = RunDirectory(tmp_path / "runs/run")
    run.create()
    keep_settings(run, detailed)
    for other in others:
        with pytest.raises(Refused, match="run is a run of another system"):
            keep_settings(run, other)
    keep_settings(run, detailed)
    assert load_settings(run) == detailed


def test_the_command_that_goes_on_names_a_ledger_that_lies_elsewhere(tmp_path: Path) -> None:
    """A run that is stopped once it is released has no directory any more: only its ledger tells that it is done."""
    common = {"data": "data", "out": "out", "state": str(tmp_path), "run_id": "run"}
    usual, other = tmp_path / "ledger.sqlite", tmp_path / "other.sqlite"
    assert TopDownSettings(ledger=str(usual), **common).resume == f"das tda run --resume run --state {tmp_path}"
    assert TopDownSettings(ledger=str(other), **common).resume.endswith(f" --ledger {other}")
