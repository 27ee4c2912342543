"""`das check`: a release that is what its manifest says passes; a forger who writes the manifest anew is found out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from fractions import Fraction
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_releases import HOSTILE, leaves
from show_release import described_anew
from top_down_inputs import begin, country, design, finish

from flows.commands.check import check
from flows.reports.terminal import printing
from tasks.errors import Refused
from tasks.releases.datapackage import PACKAGE_FILE
from tasks.releases.manifest import MANIFEST, NOT_PRIVATE, read_manifest, write_manifest
from tests.flows.conftest import Das, Refuse, bottom_up, processor_seconds

Manifest = dict[str, Any]
slow = partial(pytest.param, marks=pytest.mark.slow)
of_releases = partial(pytest.mark.parametrize, indirect=["release"])


@pytest.fixture(scope="module")
def clipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bottom_up(tmp_path_factory.mktemp("clipped"), clip=True)


@pytest.fixture(scope="module")
def gls_released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TopDown release of a state, with margins."""
    folder = tmp_path_factory.mktemp("gls")
    return finish(begin(folder, country(folder, ("23",)), design(products=("units",), estimator="gls")), folder)


@pytest.fixture
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the release that this fixture's parameter names, of few levels if it has none."""
    return Path(shutil.copytree(request.getfixturevalue(getattr(request, "param", "few_levels")), tmp_path / "release"))


def rewrite(release: Path, *changes: Callable[[Manifest], object]) -> None:
    """Write description and manifest anew over the files as they are now, as a forger would."""
    manifest = read_manifest(release)
    with suppress(OSError, ValueError):  # a table that is none
        described_anew(release)
    del manifest["files"]
    for change in changes:
        change(manifest)
    (release / MANIFEST).unlink()
    write_manifest(release, manifest)


def faults(das: Das, release: Path) -> list[str]:
    """Return the faults that `das check` finds; its exit code is 1 if there are any."""
    code, out, _ = das("check", release, "--json")
    found = [fault for each in json.loads(out)["checks"] for fault in each["faults"]]
    assert code == bool(found)
    return found


def test_the_page_of_a_census_is_listed_as_not_checked_and_its_folder_names_the_releases(
    das: Das, refused: Refuse, few_levels: Path, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(few_levels, tmp_path / "releases/persons/us"))
    page = tmp_path / "releases/index.html"
    assert str(page) not in das("check", place, "--json")[1]
    page.write_text("What all releases together tell about somebody: nothing")
    unchecked = {each["part"]: each["why"] for each in json.loads(das("check", place, "--json")[1])["not_checked"]}
    assert unchecked[str(page)] == "no manifest names this page; if it is a census's, das census run writes it again"
    refused("holds releases but is not one itself; name one of them: persons/us", "check", page.parent)


def add_one(path: Path, column: str) -> None:
    """Add 1 to the first value of a column, or make a null 1."""
    table = pq.read_table(path)
    at = table.column_names.index(column)
    first, *others = table[column].to_pylist()
    values = pa.array([(first or 0) + 1, *others], table.field(at).type)
    pq.write_table(table.set_column(at, table.field(at), values), path)


@of_releases("release", ["clipped", slow("gls_released")])  # of the others tests/systems/test_forgeries.py has it
def test_a_release_is_what_its_manifest_says(das: Das, release: Path) -> None:
    assert faults(das, release) == []


@of_releases(
    ("release", "one", "other"),
    [
        ("few_levels", "t1/usa-1.csv", "t2/usa-1.csv"),
        ("bottom_up_released", "histogram.csv", "parquet/total.parquet"),
    ],
)
def test_a_changed_a_missing_and_a_foreign_file_are_named(das: Das, release: Path, one: str, other: str) -> None:
    content = bytearray((release / one).read_bytes())
    content[len(content) // 2] ^= 1
    (release / one).write_bytes(content)
    (release / other).unlink()
    (release / "more").write_text("")
    assert set(faults(das, release)) == {
        f"{one} was changed",
        f"{other} is missing",
        "more does not belong to this release",
    }
    if not one.startswith("t1/"):  # the tables of the Detailed DHC-A are those that its manifest names
        rewrite(release)
        assert {f"{other} is missing", "more is not a file of such a release"} <= set(faults(das, release))


def persons(manifest: Manifest) -> Any:
    return manifest["products"]["persons"]


def relation(manifest: Manifest, number: int) -> Any:
    return manifest["spent"]["relations"][number]


def less_noise(manifest: Manifest) -> None:
    """State that one query had half the variance."""
    law = persons(manifest)["noise"][0]
    law.update(sigma_squared=str(Fraction(law["sigma_squared"]) / 2), variance=law["variance"] / 2)


def smaller_budget(manifest: Manifest) -> None:
    """State that half was spent, wherever that is stated."""
    both, of_product, *_ = manifest["spent"]["relations"]
    half = Fraction(of_product["exact"]) / 2
    for amount, rho in (
        (of_product, half),
        *((one, Fraction(one["exact"]) - half) for one in (both, manifest["spent"]["charged"])),
    ):
        amount.update(exact=str(rho), decimal=float(rho))


# What the manifest of `top_down_released` is made to say, and the fault that is found.
TOP_DOWN_FORGERIES: list[tuple[Callable[[Manifest], object], str]] = [
    (lambda stated: relation(stated, 0).update(epsilon_at_delta=1.0), "epsilon_at_delta is"),
    (lambda stated: relation(stated, 2).update(decimal=0.01), ", not 0.01"),
    (lambda stated: persons(stated)["noise"][0].update(alpha="1/3"), "noise.0.alpha: it is"),
]
FORGERIES = [
    (lambda stated: relation(stated, 1).update(epsilon_at_delta=1.0), "epsilon_at_delta is"),
    (lambda stated: relation(stated, 0).update(decimal=0.1), ", not 0.1"),
    (lambda stated: stated["spent"].update(unit_of_privacy="household"), "it is person, not household"),
    (lambda stated: stated["levels"]["(USA, 1)"].update(stability=1), "stage_2.sigma_squared: it is"),
    (
        lambda stated: stated["levels"]["(USA, 1)"]["groups_published"].update(age23=999),
        "groups_published.age23: it is",
    ),
]


def test_every_forged_statement_is_found_and_a_report_that_states_another_spend(das: Das, release: Path) -> None:
    report = release / "report.html"
    changed = report.read_text().replace("rho", "rho or less").replace("added or removed", "added")
    report.unlink()
    report.write_text(changed)
    rewrite(release, *(change for change, _ in FORGERIES))
    found = faults(das, release)
    assert [fault for _, fault in FORGERIES if not any(fault in each for each in found)] == []
    assert [each for each in found if each.startswith("it does not say “")]


def margins_of_others(stated: Manifest) -> None:
    stated["products"]["units"]["margins"]["mean_standard_error"][0].update(geounits=99)


@of_releases(
    ("release", "change", "fault"),
    [
        slow("top_down_released", smaller_budget, "spent.charged.exact: it is"),
        slow("top_down_released", less_noise, "noise.0.sigma_squared: it is"),
        slow("gls_released", margins_of_others, "geounits"),
    ],
)
def test_a_forged_manifest_is_found(das: Das, release: Path, change: Callable[[Manifest], object], fault: str) -> None:
    rewrite(release, change)
    assert any(fault in found for found in faults(das, release))


# A table of a release, its column in which a number is forged, and the fault that is found.
TOP_DOWN_TABLES = [
    ("histograms/persons/US/US", "count", "1 counts of level US, state US, are not sums of level State"),
    ("histograms/persons/Tract/23", "count", "1 counts of level County, state 23, are not sums of level Tract"),
    ("histograms/persons/Block/46", "count", "mdf: 1 counts are not those of the blocks"),
    ("invariants/units/Block/46", "hu", "housing units and group quarters: 1 counts are not those of the blocks"),
    ("histograms/persons/tabulation/County/46", "count", "tabulation County: 1 counts are not"),
    ("histograms/units/entities/place/23", "count", "entities place: 1 counts are not"),
    ("invariants/units/County/46", "hu", "1 counts of level State, state 46, are not sums of level County"),
    ("mdf/46_units", "COUNT", "mdf: 1 counts are not those of the blocks"),
    ("measurements/persons/County/23", "variance", "with another variance than their share gives"),
]
TABLES = [
    ("few_levels", "parquet/t1/usa-1", "COUNT", ""),
    ("few_levels", "parquet/t2/usa-1", "MOE", ""),
    slow("gls_released", "margins/units/County/23", "margin", "1 margins are not 1.96 standard errors"),
    slow("gls_released", "margins/units/tabulation/County/23", "standard_error", "1 margins are not 1.96 standard"),
    slow("gls_released", "margins/units/entities/place/23", "released", "1 released counts are not sums of the"),
]


@of_releases(("release", "table", "column", "fault"), TABLES)
def test_a_forged_number_of_a_table_is_found(das: Das, release: Path, table: str, column: str, fault: str) -> None:
    add_one(release / f"{table}.parquet", column)
    rewrite(release)
    assert any(fault in found for found in faults(das, release))


FORMS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "has metadata by which pandas or R make another table of it": lambda table: table.replace_schema_metadata(
        {"pandas": '{"index_columns": ["COUNT"]}'}
    ),
    "has no column COUNT": lambda table: table.drop_columns(["COUNT"]),
    "'PERSONS' is not a column of this table": lambda table: table.append_column("PERSONS", table["COUNT"]),
    "COUNT is double, not integer": lambda table: table.set_column(6, "COUNT", table["COUNT"].cast(pa.float64())),
    "SEX '7' is not one of its codes": lambda table: table.set_column(5, "SEX", pa.array(["7"] * len(table))),
}


@pytest.mark.parametrize("fault", FORMS)
def test_a_table_of_another_form_is_found(das: Das, release: Path, fault: str) -> None:
    path = release / "parquet/t2/usa-1.parquet"
    pq.write_table(FORMS[fault](pq.read_table(path)), path)
    rewrite(release)
    assert any(fault in found for found in faults(das, release))


@pytest.mark.ci
def test_a_description_that_is_not_the_tables_is_found(das: Das, release: Path) -> None:
    """In its words, too; that of another version is not compared, which is said."""
    path = release / PACKAGE_FILE
    package = json.loads(path.read_bytes())
    (total,) = (each for each in package["resources"] if each["name"] == "t1-usa-1")
    for change in ({"title": "Totals"}, {"das:noise": [total["das:noise"][0] | {"cells": 9}]}):
        others = [each | (change if each is total else {}) for each in package["resources"]]
        path.write_text(json.dumps(package | {"resources": others}))
        write_manifest(release, read_manifest(release))
        assert faults(das, release) == ["t1-usa-1 has another description in this version of das-flows"]
    path.write_text(json.dumps(package | {"title": "Exact counts"}))
    write_manifest(release, read_manifest(release))
    assert faults(das, release) == ["it has another title, name, run or schema"]
    manifest = read_manifest(release)
    manifest["versions"]["das-flows"] = "0.1.9"
    write_manifest(release, manifest)
    found = json.loads(das("check", release, "--json")[1])
    assert not any(each["faults"] for each in found["checks"])
    assert {PACKAGE_FILE, "dictionary.csv", "README.txt"} <= {each["part"] for each in found["not_checked"]}


@of_releases("release", ["bottom_up_released", "clipped"])
def test_a_count_that_was_forged_in_both_twins_is_found(das: Das, release: Path) -> None:
    """Unclipped it is no sum of the histogram's; clipped it is more than they are."""
    text, table = pd.read_csv(release / "total.csv", sep="|"), pd.read_parquet(release / "parquet/total.parquet")
    text["COUNT"] += 100
    table["COUNT"] += 100
    text.to_csv(release / "total.csv", sep="|", index=False)
    rows = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()
    pq.write_table(rows, release / "parquet/total.parquet")
    rewrite(release)
    (fault,) = faults(das, release)
    assert fault == "COUNT differs in 1 rows"


@of_releases("release", ["top_down_released"])
def test_forgeries_do_not_hide_each_other(das: Das, release: Path) -> None:
    """Several at once, each found; tests/systems/test_forgeries.py has every one by itself."""
    forged = {fault for _, fault in TOP_DOWN_FORGERIES}
    for table, column, fault in TOP_DOWN_TABLES:
        if table != "histograms/persons/Block/46":  # the tabulation of its county is forged alike, so they would agree
            add_one(release / f"{table}.parquet", column)
            forged.add(fault.partition(": 1 ")[0])
    rewrite(release, *(change for change, _ in TOP_DOWN_FORGERIES))
    found = faults(das, release)
    assert [fault for fault in sorted(forged) if not any(fault in each for each in found)] == []


@of_releases("release", ["top_down_released"])
@pytest.mark.ci
def test_a_count_that_was_moved_to_a_neighbour_is_found(das: Das, release: Path) -> None:
    """No sum of a level changes."""
    path = release / "histograms/persons/Block/23.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[0]["count"], rows[1]["count"] = rows[0]["count"] + 1, rows[1]["count"] - 1
    pq.write_table(pa.Table.from_pylist(rows), path)
    rewrite(release)
    assert any("mdf: 2 counts are not those of the blocks" in fault for fault in faults(das, release))


@pytest.mark.slow
@of_releases("release", ["top_down_released"])
def test_measurements_that_cost_more_than_is_stated_are_found(das: Das, release: Path) -> None:
    """The law goes with the share, in file and manifest; but no path of the spine has so much budget."""
    path = release / "measurements/units/Block/23.parquet"
    rows = pq.read_table(path).to_pylist()
    noise = read_manifest(release)["products"]["units"]["noise"]
    law, own = (next(each for each in noise if each["level"] == level) for level in ("County", "Block"))
    assert law["share"] != own["share"]
    exact = Fraction(law["sigma_squared"])
    parts = {"variance_numerator": str(exact.numerator), "variance_denominator": str(exact.denominator)}
    forged = [{**row, **parts, "share": law["share"], "variance": law["variance"]} for row in rows]
    pq.write_table(pa.Table.from_pylist(forged, pq.read_schema(path)), path)
    rewrite(release, lambda stated: stated["products"]["units"]["noise"].append({**law, "level": "Block"}))
    assert any("another share than the spine gives" in fault for fault in faults(das, release))


def test_a_folder_that_is_no_release_is_refused(refused: Refuse, tmp_path: Path) -> None:
    refused("holds no manifest.json", "check", tmp_path)
    for text, why in (
        ("[]", "is not the manifest of a release"),
        ("{", "manifest.json is not JSON"),
        ('{"format": 3, "files": {}}', "cannot be checked by its manifest.json: KeyError 'spent'"),
        ('{"format": 3, "files": {}, "spent": null, "release": "x"}', "cannot be checked by its manifest.json"),
    ):
        (tmp_path / MANIFEST).write_text(text)
        refused(why, "check", tmp_path)
    for version, given in (("an earlier", 2), ("a later", "3")):
        (tmp_path / MANIFEST).write_text(json.dumps({"format": given, "files": {}}))
        refused(f"was made by {version} version of das-flows", "check", tmp_path)


def test_a_table_that_is_none_is_refused(refused: Refuse, release: Path) -> None:
    """Its digest may be right in a manifest that was made for it."""
    path = next((release / "parquet/t1").iterdir())
    for content in (b"", path.read_bytes()[:-1]):
        path.write_bytes(content)
        rewrite(release)
        refused("cannot be checked by its manifest.json: ArrowInvalid Parquet", "check", release)


def test_what_readers_take_in_different_ways_is_refused(refused: Refuse, release: Path) -> None:
    """A name that stands twice, and another encoding than UTF-8."""

    def rewritten(name: str, content: bytes) -> None:
        before = (release / name).read_bytes()
        (release / name).write_bytes(content)
        if name != MANIFEST:
            manifest = {key: value for key, value in read_manifest(release).items() if key != "files"}
            (release / MANIFEST).unlink()
            write_manifest(release, manifest)
        refused(f"{Path(name).name} {fault}", "check", release)
        (release / name).write_bytes(before)

    for name, twice in ((MANIFEST, "spent"), (PACKAGE_FILE, "title")):
        text, fault = (release / name).read_text(), f"is not JSON: '{twice}' stands twice in one object"
        rewritten(name, text.replace("{", f'{{"{twice}": "exact counts",', 1).encode())
    fault = "is not JSON: 'utf-8' codec can't decode"
    rewritten(MANIFEST, (release / MANIFEST).read_text().encode("utf-16"))


def check_with(release: Path, path: tuple[Any, ...], value: Any) -> None:
    """Check a release with one value of its manifest changed: it is refused in a line, or found, or does not matter."""
    manifest = parent = read_manifest(release)
    for name in path[:-1]:
        parent = parent[name]
    parent[path[-1]] = value
    before, refusal = (release / MANIFEST).read_bytes(), ""
    (release / MANIFEST).write_text(json.dumps(manifest))
    try:
        with redirect_stdout(StringIO()), printing(as_json=True), processor_seconds(20, (path, value)):
            check(release)
    except Refused as refused:
        refusal = str(refused)
    finally:
        (release / MANIFEST).write_bytes(before)
    assert "\n" not in refusal, (path, value)


def test_a_hostile_value_is_refused_or_found(release: Path) -> None:
    paths = list(leaves(read_manifest(release)))
    for number, path in enumerate(paths[:: len(paths) // 5]):
        check_with(release, path, HOSTILE[number % len(HOSTILE)])
    check_with(release, ("levels", "(USA, 1)", "queries", "stage_2", "budget"), "1e999999999")
    check_with(release, ("levels", "(USA, 1)", "queries", "total_only", "budget"), "1/" + "9" * 990)


@pytest.mark.long
@of_releases("release", ["released", "top_down_released", "bottom_up_released"])
def test_every_value_of_a_manifest_may_be_hostile(release: Path) -> None:
    for number, path in enumerate(leaves(read_manifest(release))):
        check_with(release, path, HOSTILE[number % len(HOSTILE)])


@pytest.mark.ci
def test_the_last_line_is_the_verdict_and_the_checks_are_listed_where_asked_for(das: Das, release: Path) -> None:
    agrees = f"{release} agrees with its manifest: none of "
    code, out, err = das("check", release)
    assert (code, err, out.count("not checked: ")) == (0, "", len(re.findall("^not checked: ", out, re.MULTILINE)))
    assert out.splitlines()[-1].startswith(agrees)
    assert out.splitlines()[2].startswith("SYNTHETIC: ")
    assert out.splitlines()[3].startswith("not checked: ")
    every = das("check", release, "--all")[1].splitlines()
    assert every[-1].startswith(agrees)
    assert len(every) > int(re.search(r"of (\d+) checks", every[-1])[1]) > 20
    manifest = read_manifest(release)
    rewrite(release, lambda manifest: manifest.update(NOT_PRIVATE="[red]publish this"))
    code, out, _ = das("check", release)
    assert (code, out.splitlines()[2]) == (1, NOT_PRIVATE)  # it states noise
    (release / MANIFEST).write_text(json.dumps(manifest))
    (release / "t1/usa-1.csv").unlink()
    code, out, err = das("check", release)
    assert (code, out.count("wrong"), out.count(" ok ")) == (1, 1, 0)
    assert "checks found a fault; tables are not checked until the files are the release's own" in err


@of_releases("release", ["few_levels", "bottom_up_released", slow("top_down_released")])
def test_a_line_that_names_no_region_is_found(das: Das, release: Path) -> None:
    with (release / "names.csv").open("a") as table:
        table.write("STATE|no code|1\n")
    rewrite(release)
    assert any(fault.startswith("1 lines are not a region's only line") for fault in faults(das, release))
