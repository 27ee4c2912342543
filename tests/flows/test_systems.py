"""Each system is one record: what it names is there, and its releases and runs are known by it."""

from __future__ import annotations

import errno
import json
import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from flows.execution.settings import load_settings
from flows.execution.states import page
from flows.execution.systems import SYSTEMS, kind_of_release
from privacy.accounting.composition import spend
from privacy.accounting.ledger import Account, Ledger
from privacy.noise.margins import margin_of_error
from tasks.errors import Failed, Refused
from tasks.lifecycle.files import load_object
from tests.flows.conftest import Das

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_record_names_what_is_there(name: str, das: Das) -> None:
    system = SYSTEMS[name]
    assert system.part("settings_class").SYSTEM == system.name == name
    named = [part for part, value in asdict(system).items() if re.fullmatch(r"[\w.]+:\w+", str(value))]
    every = {"settings_class", "flow", "stages", "release_checks", "statements", "description", "page"}
    assert {*named} - {"check", "accuracy", "data_files", "published"} == every
    assert all(system.part(part) if part == "data_files" else callable(system.part(part)) for part in named)
    assert das(*system.command.split()[1:], "--help")[0] == 0
    flow = system.part("flow")
    assert flow.name == name
    room = "/".join(system.release_checks.split(".")[:2])
    written = [path.read_text() for path in (ROOT / room).rglob("*.py")]
    assert any(f'"{system.title}"' in source for source in written)
    assert kind_of_release(system.title) is system


@pytest.mark.parametrize(
    ("name", "manifest", "nation"),
    [
        (
            "detailed-dhca",
            {"levels": {"(USA, 1)": {}, "(STATE, 1)": {}}, "geography": {"states": ["31", "46"]}},
            ["31", "46"],
        ),
        ("detailed-dhcb", {"levels": {"(PR-STATE, 1)": {}}, "geography": {"states": ["72"]}}, []),
        ("s-dhc", {"queries": {"PH2/usa_*": {}}, "states": ["44"]}, ["44"]),
        ("top-down", {"products": {}, "spine": {"us_level": True}, "states": ["44"]}, ["44"]),
        ("top-down", {"products": {}, "spine": {"us_level": False}, "states": ["44"]}, []),
    ],
)
def test_a_manifest_says_which_states_its_nation_has(name: str, manifest: dict[str, Any], nation: list[str]) -> None:
    assert SYSTEMS[name].part("page").states_of_nation(manifest) == nation


GROUPS = {"T1": 5, "T2": 6}  # of a level, by detail or by table and detail


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_release_of_every_system_has_a_page_in_prefect(name: str, tmp_path: Path) -> None:
    """The title says which system made it, whatever keys its manifest has in common with another's."""
    of_level = {"detailed-dhcb": {"groups_published": {"t3": GROUPS}}}
    facts = of_level.get(name, {"groups_published": GROUPS, "groups": 1200})
    manifest = {
        "release": SYSTEMS[name].title,
        "spent": spend("zcdp", [Fraction(2)]).as_json(),
        "levels": {"(USA, 1)": facts},
    }
    shown = page(manifest, tmp_path, "digest", [])
    assert "| a person added or removed | rho 2 |" in shown
    assert ("| Nation, Regional" in shown) == (name in ("detailed-dhca", "detailed-dhcb")), "levels as stages name them"
    (tmp_path / "report.html").touch()
    assert f"({(tmp_path / 'report.html').as_uri()})" in page(manifest, tmp_path, "digest", [])
    assert ("| 11 |" in shown) == (name in ("detailed-dhca", "detailed-dhcb"))


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server", "shared_cluster")
def test_a_toy_system_needs_nothing_but_its_records(
    das: Das, state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is run by Prefect on Dask, stopped, listed and resumed; tests/systems/ has the rest of its contract."""
    import toy_system

    monkeypatch.setitem(SYSTEMS, "toy", toy_system.TOY)
    toy = toy_system.TOY.part("flow")
    data, out = tmp_path / "lines.txt", tmp_path / "out"
    data.write_text("a line\n" * 37 + "\n" * 3)
    ledger = Ledger(state_home / "ledger.sqlite")
    ledger.open_account(Account("toy", "zcdp", Fraction(3)))
    settings = toy_system.ToySettings.new(lines=str(data), account="toy", out=str(out), run_id="first")
    with pytest.raises(Refused, match="asks for a person's approval: Resume or Retry its flow run"):
        toy(settings.model_copy(update={"approval": True}))
    assert not out.exists() or not list(out.iterdir())

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(toy_system, "stage_in_one_piece", full)
        with pytest.raises(Failed, match="release: the disk is full"):
            toy(settings)
    (listed,) = json.loads(das("runs", "list", "--json")[1])
    assert (listed["kind"], listed["state"], listed["stage"]) == ("toy", "stopped", "noise")
    assert listed["next_step"].startswith("das toy run --resume first")
    noisy = load_object(settings.directory / "noisy/lines", tuple[int, int])
    resumed = load_settings(settings.directory)
    assert resumed == settings
    place = Path(toy(resumed))
    margin = margin_of_error(toy_system.LAW)
    assert (place / "lines.csv").read_text() == f"KIND|LINES|MOE\n0|{noisy[0]}|{margin}\n1|{noisy[1]}|{margin}\n"
    (row,) = ledger.rows("toy")
    assert (row.status, row.amount, row.states) == ("released", 1, ("44",))
