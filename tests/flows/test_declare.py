"""`das tda declare --from`: a first draft from a public table; a fault has its key, and the line that works."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.conftest import Das

LEAVES = "region,province,zone,dwellings\n" + "".join(f"{at % 2},{at % 3},z{at},{at % 5}\n" for at in range(12))
AXES = ("--axis", "sex=1,2", "--axis", "age=0-99,[100-120]")
RECORDS = "id,SEX,zone\n" + "".join(f"{at},{at % 2 + 1},z{at % 3}\n" for at in range(9))


@pytest.fixture
def leaves(tmp_path: Path) -> Path:
    (tmp_path / "leaves.csv").write_text(LEAVES)
    return tmp_path / "leaves.csv"


def refused(das: Das, said: str, *words: object) -> None:
    """Exit 1, with a finding of a key or a file, or a sentence, that says this."""
    code, out, err = das(*words, "--json")
    assert code == 1
    assert err.startswith("refused: ")
    findings = json.loads(out)["findings"] if out else []
    assert said in err + "\n".join(f"{one['column'] or one['file']}: {one['rule']}" for one in findings)


def test_a_draft_passes_has_its_levels_and_explains_itself(das: Das, leaves: Path, tmp_path: Path) -> None:
    code, _, said = das("tda", "declare", "--from", leaves, *AXES, tmp_path / "mine")
    assert code == 0, said
    text = (tmp_path / "mine/draft.toml").read_text()
    levels = [line for line in text.splitlines() if line.startswith("name = ")][1:]
    assert levels == [f'name = "{name}"' for name in ("all", "region", "province", "zone")], "dwellings are no level"
    assert 'values = ["0-99", ["100-120"]]' in text
    assert all("#" in line for line in text.splitlines() if line.startswith("budget"))
    code, out, _ = das("tda", "explain", tmp_path / "mine/draft.toml")
    assert code == 0
    assert "a person replaced by another" in " ".join(out.split())
    assert das("tda", "declare", "--from", leaves, *AXES, tmp_path / "mine")[0] == 1, "nothing is written over"


def test_only_levels_and_key_of_the_table_are_copied_as_they_are(das: Das, tmp_path: Path) -> None:
    text = LEAVES.replace("z1,", "-1,")
    table = tmp_path / "leaves\x7f.csv"  # a character that TOML has only in an escape
    table.write_text(text)
    code, _, said = das("tda", "declare", "--from", table, *AXES, tmp_path / "mine")
    assert code == 0, said
    rows = [line.split(",")[:3] for line in text.splitlines()]
    assert (tmp_path / "mine" / table.name).read_text() == "".join(f"{','.join(row)}\n" for row in rows)
    assert tomllib.loads((tmp_path / "mine/draft.toml").read_text())["leaves"]["file"] == table.name


def test_names_of_places_are_kept_and_written(das: Das, tmp_path: Path) -> None:
    rows = [f"{at // 3},{['North', 'South'][at // 3]},z{at},Zone {at},{at},x" for at in range(6)]
    (tmp_path / "leaves.csv").write_text("\n".join(["region,rname,zone,zone_name,people,kind", *rows, ""]))
    code, _, said = das("tda", "declare", "--from", tmp_path / "leaves.csv", *AXES, tmp_path / "mine")
    assert code == 0, said
    levels = tomllib.loads((tmp_path / "mine/draft.toml").read_text())["levels"]
    assert [level.get("names") for level in levels] == [None, "rname", "zone_name"]
    assert (tmp_path / "mine/leaves.csv").read_text().splitlines()[0] == "region,zone,rname,zone_name"


@pytest.mark.parametrize("upwards", [True, False])
def test_a_table_that_begins_with_its_key_has_levels_in_either_order(das: Das, tmp_path: Path, upwards: bool) -> None:
    above = ["district", "district_name", "county"] if upwards else ["county", "district", "district_name"]
    rows = []
    for at in range(12):
        units = {"district": f"E{at // 2:02d}", "district_name": f"District {at // 2}", "county": "NS"[at // 6]}
        rows.append(f"{at},Area {at},{','.join(units[name] for name in above)},{at * 7 % 12}.5")
    (tmp_path / "areas.csv").write_text("\n".join([f"area,area_name,{','.join(above)},hectares", *rows, ""]))
    code, _, said = das("tda", "declare", "--from", tmp_path / "areas.csv", *AXES, tmp_path / "mine")
    assert code == 0, said
    levels = tomllib.loads((tmp_path / "mine/draft.toml").read_text())["levels"]
    names = [(level["name"], level.get("names")) for level in levels]
    assert names == [("all", None), ("county", None), ("district", "district_name"), ("area", "area_name")]


WRONG_AXES = {
    "age=0-100+": 'write "age=0-99,[100-120]"',
    "age=0-4,5-9,10-85+": 'write "age=0-4,5-9,10-84,[85-105]"',
    "age": 'write a name and its values, as "sex=1,2"',
    "age=": "write a name and its values",
    "1age=0-9": "write a name and its values",
    "age=[0-4": "write a name and its values",
    "age=9-0": "axes.age.values: the range 9-0 runs backwards",
    "age=1,1": "axes.age.values: the value '1' is in two cells",
    "age=0-9,[9-12]": "axes.age.values: the value '9' is in two cells",
    'age=1,"': "axes.age.values",
    "region=1,2": "it looks like records, not places: it has the column region of an axis",
}
WRONG_TABLES = {
    "a row twice": (LEAVES.replace("z1,", "z0,"), "no column has another code in every row"),
    "records with an id": (RECORDS, "it has the column SEX of an axis"),
    "records": ("zone,born\n1,1950\n1,1950\n", "it looks like records, not places"),
    "a code of no table": (LEAVES.replace("z1,", "z|1,"), "leaves.zone: the code 'z|1'"),
    "a formula": (
        LEAVES.replace("z1,", "-A,"),
        "leaves.zone: the code '-A' is empty, has | or \" or is a formula: give",
    ),
    "a column that is a formula": (LEAVES.replace("zone", "=zone"), "levels.columns: '=zone' is not a column name"),
    "a column of control": (LEAVES.replace("zone", "zo\x7fne"), "levels.columns: 'zo\\x7fne' is not a column name"),
    "an empty code": (LEAVES.replace("z1,", ","), "leaves.zone: the code '' is empty"),
    "an empty file": ("", "it is empty"),
}
WRONG_DECLARATIONS: dict[str, tuple[Callable[[str], str], str]] = {
    "an open range": (lambda text: text.replace('"0-99", ["100-120"]', '"0-100+"'), 'write "0-99", ["100-120"]'),
    "a key": (
        lambda text: text.replace("budget =", "budgets ="),
        "no such key: budgets; did you mean budget?",
    ),
    "a budget": (lambda text: text.replace('budget = "1"', 'budget = "one"'), "budget: 'one' is not an exact number"),
    "a query": (lambda text: text.replace("detailed =", '"sex*height" ='), "queries.sex*height"),
    "shares": (lambda text: text.replace('total = "1/2"', 'total = "1/3"'), "queries"),
    "a level's column": (lambda text: text.replace('["province"]', '["provincia"]'), "leaves.csv: no column provincia"),
    "a table": (lambda text: text.replace("leaves.csv", "gone.csv"), "gone.csv: the file does not exist"),
}


@pytest.mark.parametrize("typed", WRONG_AXES)
def test_a_faulty_axis_is_answered_by_what_works(das: Das, leaves: Path, tmp_path: Path, typed: str) -> None:
    refused(das, WRONG_AXES[typed], "tda", "declare", "--from", leaves, "--axis", typed, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("what", WRONG_TABLES)
def test_records_and_faulty_tables_are_refused(das: Das, tmp_path: Path, what: str) -> None:
    text, said = WRONG_TABLES[what]
    (tmp_path / "leaves.csv").write_text(text)
    refused(das, said, "tda", "declare", "--from", tmp_path / "leaves.csv", *AXES, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("what", WRONG_DECLARATIONS)
def test_a_faulty_declaration_is_refused_by_its_key(das: Das, leaves: Path, what: str) -> None:
    change, said = WRONG_DECLARATIONS[what]
    mine = leaves.parent / "mine"
    assert das("tda", "declare", "--from", leaves, *AXES, mine)[0] == 0
    text = (mine / "draft.toml").read_text()
    assert change(text) != text
    (mine / "draft.toml").write_text(change(text))
    refused(das, said, "tda", "explain", mine / "draft.toml")
