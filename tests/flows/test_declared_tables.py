"""The tables that a declaration publishes besides those of its queries: counts of its histograms within a universe."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from declarations import BASE, write

from flows.reports.show.release_pages import SHORT
from privacy.noise.randomness import RunSecret
from spine.declaration.declaration import read_declaration
from tasks.records.declarations import find_declaration, read_raw
from tests.flows.conftest import Das

PUBLISH: dict[str, Any] = {
    "recodes": {"half": {"axis": "age", "starts": [0, 2], "labels": ["0 and 1", "2 and over"]}},
    "tables": {
        "sex-by-half": {"title": "Sex by age", "universe": "total population", "by": "sex*half"},
        "institutions": {
            "title": "Institutions by sex",
            "universe": "persons of 2 and over in institutions",
            "by": "dwelling*sex",
            "where": {"dwelling": "2", "half": "2 and over"},
        },
    },
}


@pytest.fixture
def release(das: Das, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a release of the small country under one secret, with these tables to publish."""
    monkeypatch.setattr(RunSecret, "generate", classmethod(lambda cls: cls(bytes(range(32)))))

    def make(name: str, *options: str, **more: Any) -> Path:
        declaration, data = write(tmp_path / name, BASE | more)
        assert das("synth", "--mark", data, "--yes")[0] == 0
        words = ("tda", "run", data, tmp_path / name / "out", "--declaration", declaration, "--workers", 1, *options)
        code, _, err = das(*words, "--runs-folder", tmp_path / "state")
        assert code == 0, err
        return tmp_path / name / "out/declared"

    return make


@pytest.mark.usefixtures("stages_here")
def test_tables_count_their_universe_and_change_nothing_else(release: Callable[..., Path], das: Das) -> None:
    plain, own = release("plain"), release("own", publish=PUBLISH)
    for path in sorted(plain.rglob("*.csv")):
        if path.name != "dictionary.csv":
            assert path.read_bytes() == (own / path.relative_to(plain)).read_bytes(), "the noise is that without tables"
    digests = [json.loads((each / "manifest.json").read_text())["configuration_digest"] for each in (plain, own)]
    assert len({*digests}) == 2, "and the release is another"
    assert das("check", own)[0] == 0
    cells = pd.read_csv(own / "district.csv", sep="|", dtype={"dwelling": str, "sex": str, "age": str})
    cells["half"] = cells["age"].map(lambda code: "0 and 1" if code in "01" else "2 and over")
    keys = ["region", "district"]
    for name, rows, by, unit in (
        ("sex-by-half", cells, ["sex", "half"], "total population"),
        (
            "institutions",
            cells[(cells.dwelling == "2") & (cells.half == "2 and over")],
            ["dwelling", "sex"],
            "persons of 2 and over in institutions",
        ),
    ):
        table = pd.read_csv(own / f"tables/{name}/district.csv", dtype=dict.fromkeys(by, str))
        assert {*table["unit"]} == {unit}
        assert len(table)
        pd.testing.assert_series_equal(
            table.set_index([*keys, *by])["count"].sort_index(),
            rows.groupby([*keys, *by])["COUNT"].sum(),
            check_names=False,
        )
    listed = json.loads(das("show", own, "--json")[1])["tables"]
    titles = {each["title"] for each in listed}
    assert "Institutions by sex by district; universe: persons of 2 and over in institutions" in titles


@pytest.mark.usefixtures("stages_here")
def test_margins_of_estimates_are_shown_at_any_confidence(release: Callable[..., Path], das: Das) -> None:
    """At 90% they were left out, although the standard errors that they are multiples of are beside them."""
    own = release("own", "--estimator", "gls")
    table = next(
        each["name"] for each in json.loads(das("show", own, "--json")[1])["tables"] if "total" in each["name"]
    )
    shown = {}
    for percent, deviations in (("95", 1.95996), ("90", 1.64485)):
        code, out, err = das("show", own, "--table", table, "--confidence", percent, "--format", "csv")
        assert code == 0, err
        shown[percent] = rows = pd.read_csv(StringIO(out))
        name = "estimate_margin" if percent == "95" else "estimate_margin_90"
        assert rows[name].to_numpy() == pytest.approx(deviations * rows["standard_error"].to_numpy(), abs=2e-3)
    assert len(shown["90"]) == len(shown["95"]) > 0
    page = json.loads(das("show", own, "--table", table, "--confidence", "90", "--json")[1])
    (meaning,) = [each["meaning"] for each in page["columns"] if each["name"].startswith("estimate_margin")]
    assert meaning == "90% by the normal law: 1.64 standard errors"
    code, out, err = das("show", own, "--region", pd.read_csv(own / "region.csv", sep="|")["region"][0], "--json")
    assert code == 0, err
    tables = json.loads(out)["tables"]
    assert len(tables) > 1, "besides its total, what else is short"
    assert all(each["page"]["total"] <= SHORT for each in tables)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda own: own["recodes"]["half"].update(axis="ages"), "publish.recodes.half.axis"),
        (lambda own: own["recodes"]["half"].update(starts=[1, 2]), "publish.recodes.half"),
        (lambda own: own["recodes"].update(young=own["recodes"]["half"]), "publish.recodes.young"),
        (lambda own: own["tables"]["institutions"].update(by="sex*half*age"), "publish.tables.institutions.by"),
        (lambda own: own["tables"]["institutions"].update(by="race"), "publish.tables.institutions.by"),
        (lambda own: own["tables"]["institutions"].update(title="a|b"), "publish.tables.institutions.title"),
        (lambda own: own["tables"]["institutions"].update(universe=""), "publish.tables.institutions.universe"),
        (lambda own: own["tables"]["institutions"]["where"].update(age="0"), "publish.tables.institutions.where"),
        (lambda own: own["tables"]["institutions"]["where"].update(sex="3"), "publish.tables.institutions.where.sex"),
        (lambda own: own["recodes"].update(COUNT=own["recodes"]["half"]), "publish.recodes.COUNT"),
        (lambda own: own["recodes"].update(district=own["recodes"]["half"]), "publish.recodes.district"),
        (lambda own: own["tables"].update(total=own["tables"]["institutions"]), "publish.tables.total"),
        (lambda own: own["tables"].update(cells=own["tables"]["institutions"]), "publish.tables.cells"),
        (lambda own: own["tables"]["institutions"].update(names="x"), "publish.tables.institutions.names"),
    ],
)
def test_faults_of_a_table_are_named_by_their_key(change: Callable[[Any], object], key: str) -> None:
    own = copy.deepcopy(PUBLISH)
    change(own)
    declaration, faults = read_declaration(BASE | {"publish": own})
    assert declaration is None
    assert key in {fault.key for fault in faults}


@pytest.mark.parametrize("jurisdiction", ["us", "pr"])
def test_the_persons_of_the_dhc_have_the_tables_of_demographers(jurisdiction: str) -> None:
    declaration, _ = read_declaration(read_raw(find_declaration(f"dhc-persons-{jurisdiction}")))
    assert declaration is not None
    found = {table.name: table for table in declaration.published}
    assert {name: (table.universe, table.by) for name, table in found.items()} == {
        "sex-by-age": ("total population", "sex*age23"),
        "sex-by-age-by-race": ("total population", "sex*age23*race7"),
        "relationship": ("population in households", "relgq"),
        "group-quarters": ("population in group quarters", "relgq"),
    }
    labels = declaration.product.axis("relgq").labels
    inside = {
        name: [labels[at] for at in sorted(table.inside["relgq"])] for name, table in found.items() if table.inside
    }
    assert (inside["relationship"][0], inside["relationship"][-1]) == ("householder living alone", "other nonrelative")
    assert inside["relationship"] + inside["group-quarters"] == [*labels]
    ages = next(each for each in found["sex-by-age"].histogram.recodes if each.name == "age23")
    assert (len(ages.labels), ages.labels[ages.part[84]], ages.labels[ages.part[61]]) == (23, "80 to 84", "60 and 61")
    for age, part in enumerate(ages.part):  # labels are what the starts say
        words = ages.labels[part].replace("under 5", "0 to 4").replace("85 and over", "85 to 115").replace("and", "to")
        first, _, last = words.partition(" to ")
        assert int(first) <= age <= int(last or first)
