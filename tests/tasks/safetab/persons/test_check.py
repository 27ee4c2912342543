"""The check of a Detailed DHC-A: each way in which its tables can disagree with each other is found, by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dhca_inputs import BUDGETS, configuration, stage_here
from show_release import inputs

from flows.execution.systems import SYSTEMS
from tasks.releases.manifest import read_manifest

pytestmark = pytest.mark.usefixtures("untidy")
Rows = list[dict[str, Any]]
LEVELS = dict.fromkeys((name for name in BUDGETS if not name.endswith(("2_usa", "2_state", "2_county"))), 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of nation, states and counties, of which one state is one county, with estimates."""
    given = inputs()
    given.config = configuration(**LEVELS, thresholds_p=given.config["thresholds_p"], zero_suppression_chance=0.9)
    return stage_here(tmp_path_factory.mktemp("made"), given, coterminous=True, estimates=True)[1]


def faults(release: Path) -> str:
    manifest = read_manifest(release)
    checks = SYSTEMS["detailed-dhca"].part("release_checks")(release, manifest)
    return "; ".join(f"{each.what}: {fault}" for each in checks for fault in each.faults)


def first(where: Callable[[dict[str, Any]], bool], **values: Any) -> Callable[[Rows], Rows]:
    """Change the first row that is one of these: set its values, or add to its numbers; leave it out without any."""

    def change(rows: Rows) -> Rows:
        at = next(place for place, row in enumerate(rows) if where(row))
        new = {name: rows[at][name] + value if isinstance(value, int) else value for name, value in values.items()}
        return [*rows[:at], *([rows[at] | new] if new else []), *rows[at + 1 :]]

    return change


def any_row(_row: dict[str, Any]) -> bool:
    return True


def total_only(row: dict[str, Any]) -> bool:
    return row["ITERATION_CODE"] == "2007"


def in_state_02(row: dict[str, Any]) -> bool:
    return row["REGION_ID"].startswith("02")


def is_cell(row: dict[str, Any]) -> bool:
    return bool(row["AGESTART"] != "*")


FORGED: list[tuple[str, Callable[[Rows], Rows], str]] = [
    ("t1/usa-2", first(any_row), "groups, not all"),
    ("t1/usa-2", first(total_only, MOE=1), "t1: groups of (USA, 2): MOE differs in 1 rows"),
    ("t1/usa-2", first(any_row, COUNT=1), "COUNT differs in 1 rows"),
    ("t1/usa-2", first(any_row, REGION_ID="2"), "t1: 1 groups are not in the level"),
    ("t1/usa-2", lambda rows: rows[::-1], "GROUP differs in 10 rows"),
    ("t1/usa-2", lambda rows: [rows[0], *rows], "t1: groups of (USA, 2): it has 11 rows, not 10"),
    ("t1/usa-2", lambda rows: [*rows, rows[0]], "1 groups have several tables"),
    ("t1/county-2", lambda rows: [{**row, "MOE": 0} for row in rows], "t1: groups of (COUNTY, 2): MOE differs in "),
    ("t1/county-2", first(in_state_02, MOE=1), "t1: groups of (COUNTY, 2): MOE differs in "),
    ("t2/usa-2", first(any_row), "t2: 1 groups have a number of rows that no table has"),
    ("t2/usa-2", first(is_cell, SEX="2"), "SEX differs in 1 rows"),
    ("t2/usa-2", first(is_cell, AGEEND="9"), "AGEEND differs in 1 rows"),
    ("t2/usa-2", first(is_cell, COUNT=1), "t1: groups of (USA, 2): COUNT differs in 1 rows"),
    ("t2/usa-2", first(any_row, MOE=-1), "t2: groups of (USA, 2): MOE differs in 1 rows"),
    ("t2/state-2", lambda rows: [], "t1: groups of (STATE, 2): MOE differs in "),
    (
        "t2/state-2",
        lambda rows: [{**row, "ITERATION_CODE": "2007"} for row in rows[:48]],
        "TotalOnly groups have cells",
    ),
    ("t1/state-2", lambda rows: [], "groups have cells and no total"),
    ("estimates/t1/state-2", first(any_row, ESTIMATE=1), "COUNT differs in 1 rows"),
    ("estimates/t2/state-2", first(any_row, ESTIMATE=1), "COUNT differs in 1 rows"),
    ("estimates/t1/state-2", first(total_only), "groups have no estimate, not "),
]


def test_a_release_agrees_and_a_coterminous_region_has_its_donors_margins(made: Path) -> None:
    assert not faults(made)
    state, county = (pq.read_table(made / f"parquet/t1/{level}-2.parquet").to_pylist() for level in ("state", "county"))
    margins = [
        {row["ITERATION_CODE"]: row["MOE"] for row in rows if row["REGION_ID"][:2] == "02"} for rows in (state, county)
    ]
    assert margins[0].items() >= {code: moe for code, moe in margins[1].items() if code in margins[0]}.items()


@pytest.mark.parametrize(("table", "change", "fault"), FORGED)
def test_a_table_that_disagrees_is_found(
    made: Path, tmp_path: Path, table: str, change: Callable[[Rows], Rows], fault: str
) -> None:
    release = Path(shutil.copytree(made, tmp_path / "release"))
    path = release / f"parquet/{table}.parquet"
    old = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(old.to_pylist()), old.schema), path)
    assert fault in faults(release)
