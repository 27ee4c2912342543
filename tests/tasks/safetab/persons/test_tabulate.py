"""The rules of the tabulation system, on made-up tables and on a release."""

import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest
from dhca_inputs import Inputs, people, stage_here

from flows.commands.check import check
from flows.commands.show import open_release
from tasks.errors import Refused
from tasks.releases.manifest import MANIFEST, read_manifest, release_digest, write_manifest
from tasks.safetab.persons.tabulate import contradicted, partners, tabulate

NAMES = {
    "1": "Albanian alone",
    "2": "Albanian alone or in any combination",
    "3": "Other White alone, specified",
    "4": "Other White alone or in any combination, specified",
    "5": "Cuban",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    inputs = Inputs(persons=people(60))
    inputs.config["thresholds_p"] = {level: [-(10**6), 20, 40] for level in inputs.config["thresholds_p"]}
    del inputs.config["zero_suppression_chance"]
    return stage_here(tmp_path_factory.mktemp("made"), inputs)[1]


@pytest.fixture
def release_of_noise(made, tmp_path):
    """A staged release, in which small groups are published, some of them negative."""
    return shutil.copytree(made, tmp_path / "noise")


def test_an_iteration_alone_has_the_one_in_any_combination_as_its_partner():
    assert partners(NAMES) == {"1": "2", "3": "4"}


def test_a_group_is_suppressed_whose_total_alone_exceeds_its_partner():
    """44001: 9 > 8 goes, 5 = 5 stays. 44003: a partner was not published; that of another region does not count."""
    rows = [
        ("44001", "1", 9),
        ("44001", "2", 8),
        ("44001", "3", 5),
        ("44001", "4", 5),
        ("44003", "1", 99),
        ("44001", "5", 1),
    ]
    table = pd.DataFrame(rows, columns=["REGION_ID", "ITERATION_CODE", "COUNT"])
    gone, not_compared = contradicted(table, partners(NAMES))
    assert gone.to_dict("records") == [{"REGION_ID": "44001", "ITERATION_CODE": "1"}]
    assert not_compared.to_dict("records") == [{"REGION_ID": "44003", "ITERATION_CODE": "1"}]


def test_a_release_is_written_anew_with_each_change_counted(release_of_noise, tmp_path):
    """Against plain loops over the release's rows."""
    out = tmp_path / "tables"
    changes = tabulate(release_of_noise, out)
    assert sum(row["negative_totals"] for row in changes) > 0
    assert (out / "datapackage.json").exists()
    assert len((out / "changes.csv").read_text().splitlines()) == len(changes) + 1
    groups = pd.read_csv(out / "changed-groups.csv", sep="|", dtype=str).astype({"rows": int})
    for name in ("negative_totals", "negative_cells", "suppressed_groups", "suppressed_cells", "not_compared"):
        assert groups.loc[groups.change == name, "rows"].sum() == sum(row[name] for row in changes)
    changed = {
        name: set(rows[["REGION_TYPE", "REGION_ID", "ITERATION_CODE"]].itertuples(index=False, name=None))
        for name, rows in groups.groupby("change")
    }
    suppressed, negative = set(), set()
    for path in sorted(release_of_noise.glob("parquet/t?/*.parquet")):
        before, after = (
            pq.read_table(each / path.relative_to(release_of_noise)).to_pylist() for each in (release_of_noise, out)
        )
        gone = {(row["REGION_ID"], row["ITERATION_CODE"]) for row in before} - {
            (row["REGION_ID"], row["ITERATION_CODE"]) for row in after
        }
        suppressed |= {(before[0]["REGION_TYPE"], *group) for group in gone}
        negative |= {
            (row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"])
            for row in before
            if path.parent.name == "t1" and row["COUNT"] < 0
        }
        kept = [row for row in before if (row["REGION_ID"], row["ITERATION_CODE"]) not in gone]
        assert after == [row | {"COUNT": max(row["COUNT"], 0)} for row in kept]
    assert changed["negative_totals"] == negative != set()
    assert changed.get("suppressed_groups", set()) == suppressed
    with pytest.raises(Refused, match="not empty"):
        tabulate(release_of_noise, out)


def test_the_tables_agree_with_their_manifest_and_have_pages(release_of_noise, tmp_path):
    out = tmp_path / "tables"
    tabulate(release_of_noise, out)
    assert read_manifest(out)["tabulated"] == release_digest(release_of_noise)
    check(out)
    titles = [table.resource.title for table in open_release(out).tables.values()]
    assert any("Totals of population groups" in title for title in titles)
    assert "What was changed, by level and rule" in titles
    with pytest.raises(Refused, match="give the release that it was made from"):
        tabulate(out, tmp_path / "again")
    next(out.glob("t1/*.csv")).write_text("changed")
    with pytest.raises(Refused, match="does not agree with its manifest"):
        check(out)


def test_exact_counts_and_changed_releases_are_refused(release_of_noise, tmp_path):
    text = next(release_of_noise.glob("t1/*.csv"))
    whole = text.read_bytes()
    text.write_bytes(whole + b"x")
    with pytest.raises(Refused, match="not as it was released"):
        tabulate(release_of_noise, tmp_path / "out")
    text.write_bytes(whole)
    manifest = read_manifest(release_of_noise)
    (release_of_noise / MANIFEST).unlink()
    write_manifest(release_of_noise, {**manifest, "NOT_PRIVATE": "exact"})
    with pytest.raises(Refused, match="exact counts"):
        tabulate(release_of_noise, tmp_path / "out")


def test_of_a_release_of_households_it_says_what_to_do_instead(release_of_noise, tmp_path):
    manifest = read_manifest(release_of_noise)
    (release_of_noise / MANIFEST).unlink()
    write_manifest(release_of_noise, {**manifest, "release": "Detailed DHC-B by SafeTab-H"})
    with pytest.raises(Refused, match=r"allow_negative_counts: false; groups to leave out are in changed-groups\.csv"):
        tabulate(release_of_noise, tmp_path / "out")
