"""`das check` of a TopDown release: a forger who writes the manifest anew over what was changed is found out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.lifecycle.manifest import read_manifest
from tests.flows.conftest import Das
from tests.flows.test_check import faults, rewrite, with_column

Told = dict[str, Any]


@pytest.fixture
def release(top_down_released: Path, tmp_path: Path) -> Path:
    """A release without the margins of no run's that tests of pages want."""
    copy = Path(shutil.copytree(top_down_released, tmp_path / "release"))
    shutil.rmtree(copy / "margins")
    rewrite(copy)
    return copy


def test_a_release_is_what_its_manifest_says(das: Das, release: Path) -> None:
    assert faults(das, release) == []


@pytest.mark.slow
def test_a_changed_a_missing_and_a_foreign_file_are_named(das: Das, release: Path) -> None:
    one, other = release / "mdf/23_persons.parquet", release / "histograms/units/Block/46.parquet"
    content = bytearray(one.read_bytes())
    content[len(content) // 2] ^= 1
    one.write_bytes(bytes(content))
    other.unlink()
    (release / "mdf/23_persons.csv").write_text("")
    changed, missing = "mdf/23_persons.parquet was changed", "histograms/units/Block/46.parquet is missing"
    assert set(faults(das, release)) == {changed, missing, "mdf/23_persons.csv is not of this release"}
    one.unlink()
    rewrite(release)
    names = {"mdf/23_persons.parquet is missing", missing, "mdf/23_persons.csv is no file of such a release"}
    assert set(faults(das, release)) == names


def persons(told: Told) -> Any:
    return told["products"]["persons"]


def less_noise(told: Told) -> None:
    """Say that one query had half the variance."""
    law = persons(told)["noise"][0]
    law.update(sigma_squared=str(Fraction(law["sigma_squared"]) / 2), variance=law["variance"] / 2)


def smaller_budget(told: Told) -> None:
    """Say that half was spent, in every number that tells it."""
    of_product, of_all = told["spent"]["products"]["persons"], told["spent"]["bounded"]
    half = Fraction(of_product["rho"]) / 2
    for amount, rho in ((of_product, half), (of_all, Fraction(of_all["rho"]) - half)):
        amount.update(rho=str(rho), decimal=float(rho))


MANIFEST_FORGERIES: tuple[tuple[Callable[[Told], Any], str], ...] = (
    (lambda told: told["spent"]["bounded"].update(epsilon_at_delta=1.0), "bounded: epsilon is"),
    (lambda told: told["spent"]["products"]["units"].update(decimal=0.01), "is not 0.01"),
    (lambda told: told["spent"]["products"]["units"].update(rho="1/100"), "spend rho"),
    (smaller_budget, "the levels spend rho"),
    (less_noise, "sigma_squared is"),
    (lambda told: persons(told)["noise"][0].update(variance=1.0), "variance is"),
    (lambda told: persons(told)["noise"][0].update(alpha="1/3"), "the query groups of level US sum to"),
    (lambda told: persons(told).update(budget="1"), "sigma_squared is"),
    (lambda told: persons(told)["shares"].update(State="1/2"), "the levels' shares sum to"),
    (lambda told: persons(told)["shares"].pop("Tract"), "there are shares of US, State, County, Block_Group"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "said"), MANIFEST_FORGERIES)
def test_what_a_forged_manifest_says_is_computed_again(
    das: Das, release: Path, change: Callable[[Told], Any], said: str
) -> None:
    rewrite(release, change)
    assert any(said in fault for fault in faults(das, release))


FILE_FORGERIES = (
    ("histograms/persons/US/US", "count", "1 counts of level US, state US, are not sums of level State"),
    ("histograms/persons/Tract/23", "count", "1 counts of level County, state 23, are not sums of level Tract"),
    ("histograms/persons/Block/46", "count", "mdf: 1 counts are not those of the blocks"),
    ("invariants/units/Block/46", "hu", "housing units and group quarters: 1 counts are not those of the blocks"),
    ("histograms/persons/tabulation/County/46", "count", "tabulation County: 1 counts are not"),
    ("histograms/units/entities/place/23", "count", "entities place: 1 counts are not"),
    ("invariants/units/County/46", "hu", "1 counts of level State, state 46, are not sums of level County"),
    ("mdf/46_units", "COUNT", "mdf: 1 counts are not those of the blocks"),
    ("measurements/persons/County/23", "variance", "with share"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "column", "said"), FILE_FORGERIES)
def test_a_forged_count_or_variance_is_found(das: Das, release: Path, file: str, column: str, said: str) -> None:
    with_column(release / f"{file}.parquet", column, lambda value: value + 1)
    rewrite(release)
    assert any(said in fault for fault in faults(das, release))


def test_forgeries_do_not_hide_each_other(das: Das, release: Path) -> None:
    """Several at once, each found; every one by itself is a slow test."""
    forged = {"bounded: epsilon is", "is not 0.01", "the query groups of level US sum to"}
    changes = [change for change, said in MANIFEST_FORGERIES if said in forged]
    for file, column, said in FILE_FORGERIES:
        if file == "histograms/persons/Block/46":
            continue  # the tabulation of its county is forged alike, so that they would agree
        with_column(release / f"{file}.parquet", column, lambda value: value + 1)
        forged.add(said.partition(": 1 ")[0])
    rewrite(release, lambda told: [change(told) for change in changes])
    found = faults(das, release)
    assert [said for said in sorted(forged) if not any(said in fault for fault in found)] == []


def test_a_count_that_was_moved_to_a_neighbour_is_found(das: Das, release: Path) -> None:
    """No sum of a level changes."""
    path = release / "histograms/persons/Block/23.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[0]["count"], rows[1]["count"] = rows[0]["count"] + 1, rows[1]["count"] - 1
    pq.write_table(pa.Table.from_pylist(rows), path)
    rewrite(release)
    assert any("mdf: 2 counts are not those of the blocks" in fault for fault in faults(das, release))


@pytest.mark.slow
def test_measurements_that_cost_more_than_is_told_are_found(das: Das, release: Path) -> None:
    """The law goes with the share, in file and manifest; but no path of the spine has so much budget."""
    path = release / "measurements/units/Block/23.parquet"
    rows = pq.read_table(path).to_pylist()
    told = read_manifest(release)["products"]["units"]
    shares = {each["level"]: each["share"] for each in told["noise"]}
    law = next(each for each in told["noise"] if each["level"] == "County")
    assert law["share"] == shares["County"] != shares["Block"]
    for row in rows:
        row["share"] = law["share"]
        exact = Fraction(law["sigma_squared"])
        row.update(variance_numerator=str(exact.numerator), variance_denominator=str(exact.denominator))
        row["variance"] = law["variance"]
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    rewrite(release, lambda told: told["products"]["units"]["noise"].append({**law, "level": "Block"}))
    assert any("blocks share" in fault for fault in faults(das, release))


@pytest.fixture(scope="module")
def with_margins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of a state with margins of its own."""
    from top_down_inputs import begin, country, design, finish

    folder = tmp_path_factory.mktemp("gls")
    return finish(begin(folder, country(folder, ("23",)), design(products=("units",), estimator="gls")), folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "column", "said"),
    [
        ("County", "margin", "1 margins are not 1.96 standard errors"),
        ("tabulation/County", "standard_error", "1 margins are not 1.96 standard errors"),
        ("entities/place", "released", "1 counts are not those released"),
    ],
)
def test_a_forged_margin_is_found(
    das: Das, with_margins: Path, tmp_path: Path, file: str, column: str, said: str
) -> None:
    release = Path(shutil.copytree(with_margins, tmp_path / "release"))
    assert faults(das, release) == []
    with_column(release / f"margins/units/{file}/23.parquet", column, lambda value: (value or 0) + 1)
    rewrite(release)
    assert any(said in fault for fault in faults(das, release))
    rewrite(release, lambda told: told["products"]["units"]["margins"]["mean_standard_error"][0].update(geounits=99))
    assert any("geounits" in fault for fault in faults(das, release))
