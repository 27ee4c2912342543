"""The contract of a release, for every system: described for others, margins by their laws, shown, read, its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook

from flows.commands.show import open_release
from flows.execution.systems import kind_of_release
from flows.frames import read_release
from flows.reports.show.application import _answer
from tasks.releases.datapackage import DICTIONARY_FILE, PACKAGE_FILE, Resource, read_package, resources_of
from tasks.releases.manifest import file_names, read_manifest
from tasks.releases.readme import README
from tests.packages import validate_package
from tests.systems.cases import Case
from tests.systems.conftest import Finished, Home, das, every
from tests.systems.test_runs import rows_of, tables

Finish = Callable[[Case], Finished]
TABLES = (".csv", ".parquet", ".txt")


def package_of(release: Path) -> dict[str, Any]:
    package: dict[str, Any] = json.loads((release / PACKAGE_FILE).read_text())
    return package


@every()
def test_every_column_of_every_table_is_described(finished: Finish, case: Case) -> None:
    release = finished(case).release
    manifest = read_manifest(release)
    resources = read_package(release, manifest["files"])
    paths = [path for resource in resources for path in resource.paths]
    assert sorted(paths) == [
        name for name in file_names(release) if name.endswith(TABLES) and name not in (DICTIONARY_FILE, README)
    ]
    for resource in resources:
        for path in resource.paths:
            assert resource.column_names == columns_of(release / path, resource), path
        assert resource.title
        for column in resource.columns:
            assert all((column.meaning, column.unit, column.title)), (resource.name, column.name)
    kind = kind_of_release(manifest["release"])
    assert kind is not None
    described = kind.part("description")(manifest)
    assert resources == resources_of(release, described, paths)  # what is written is what is read
    header, *rows = [line.split("|") for line in (release / DICTIONARY_FILE).read_text().splitlines()]
    assert {len(row) for row in rows} == {len(header)}
    assert {column.name for table in described.tables for column in table.columns} >= {row[1] for row in rows}


def columns_of(path: Path, resource: Resource) -> list[str]:
    if path.suffix == ".parquet":
        return list(pq.read_schema(path).names)
    with path.open(encoding="utf-8") as file:
        return file.readline().rstrip("\n").split(resource.delimiter)


@every()
def test_no_file_of_a_release_has_a_path_of_the_machine(finished: Finish, case: Case) -> None:
    run = finished(case)
    folder = str(run.home.folder).encode()
    assert [name for name in file_names(run.release) if folder in (run.release / name).read_bytes()] == []


@every()
def test_the_description_keeps_the_published_profile(finished: Finish, case: Case) -> None:
    """Of each set of columns one resource: the tables of a level are described alike."""
    profile = json.loads((files("dplib") / "profiles/2.0/datapackage.json").read_text())
    package = package_of(finished(case).release)
    columns = {tuple(each["name"] for each in one["schema"]["fields"]): one for one in package["resources"]}
    package["resources"] = [*columns.values()]
    validator = jsonschema.validators.validator_for(profile)(profile)
    assert package["$schema"] == "https://datapackage.org/profiles/2.0/datapackage.json"
    assert [error.message[:200] for error in validator.iter_errors(package)] == []
    package["resources"] = package["resources"][:1]
    package["resources"][0]["schema"]["fields"][0]["type"] = "code"
    assert len(list(validator.iter_errors(package))) == 1  # it looks at every field


@every()
@pytest.mark.ci
def test_others_read_the_tables_by_the_description(finished: Finish, case: Case) -> None:
    """Types, codes, keys and references, by another program; it reads version 1 and passes over what is new."""
    validate_package(finished(case).release)


@every()
def test_keys_references_codes_and_bytes_hold(finished: Finish, case: Case) -> None:
    """Of each set of columns DuckDB finds the rows that pandas does, by the files and the delimiter described alone.

    Of other tables in text, `das check` finds that they are those in Parquet.
    """
    release = finished(case).release
    found = {one.name: one for one in read_package(release, read_manifest(release)["files"])}
    one_each = {(tuple(table.column_names), table.is_text): table for table in found.values()}.values()
    with duckdb.connect() as database:
        for table in one_each:
            places = [str(release / path) for path in table.paths]
            read = database.read_csv(places, sep=table.delimiter) if table.is_text else database.read_parquet(places)
            assert (read.columns, len(read)) == (table.column_names, len(rows_of(release, table)))
    for name, table in found.items():
        if table.twin and table not in one_each:
            continue
        rows = rows_of(release, table)
        if table.key:
            assert not rows[list(table.key)].astype(str).duplicated().any(), name
        for column in table.columns:
            if column.codes and column.type == "string":
                assert set(rows[column.name].unique()) <= set(column.codes), (name, column.name)
        for reference in table.references:
            keys = rows_of(release, found[reference.table])[list(reference.key)].astype(str)
            own = rows[list(reference.columns)].astype(str)
            own = own[(own != "").all(axis=1)]
            assert set(own.itertuples(index=False, name=None)) <= set(keys.itertuples(index=False, name=None))
    for each in package_of(release)["resources"]:
        assert ("bytes" in each) == (each["format"] == "csv")  # of Parquet frictionless finds neither
        if each["format"] == "csv":
            content = (release / each["path"]).read_bytes()
            assert (len(content), f"sha256:{sha256(content).hexdigest()}") == (each["bytes"], each["hash"])


def least_margin(law: dict[str, Any], cells: int) -> int:
    """The least m with P(|S| > m) <= .05 of the sum S of independent draws, by floats: not the product's way."""
    if law["law"] == "discrete Gaussian":
        sigma_squared = float(Fraction(law["sigma_squared"]))
        reach = int(12 * (sigma_squared * cells) ** 0.5) + 12
        steps = np.arange(-reach, reach + 1)
        one = np.exp(-(steps.astype(float) ** 2) / (2 * sigma_squared))
    else:
        reach = int(40 * float(Fraction(law["scale"])) * cells**0.5) + 40
        steps = np.arange(-reach, reach + 1)
        one = np.exp(-np.abs(steps) / float(Fraction(law["scale"])))
    spectrum = np.fft.rfft(np.fft.ifftshift(one / one.sum()))
    mass = np.fft.fftshift(np.fft.irfft(spectrum**cells, len(steps)))
    beyond = np.array([mass[np.abs(steps) > m].sum() for m in range(reach)])
    return int(np.flatnonzero(beyond <= 0.05)[0])


@every()
def test_the_margin_of_every_count_is_that_of_its_law(finished: Finish, case: Case) -> None:
    release = finished(case).release
    stated = 0
    for name, table in tables(release).items():
        margins = [each.name for each in table.with_role("margin")][:1]
        if not margins or not table.noise or (table.noise[0].get("margin") is None and len(table.key) < case.axes):
            continue  # estimates, and sums of as many cells as their margins say
        expected = {least_margin(law, law.get("cells", 1)) * Fraction(law.get("step", 1)) for law in table.noise}
        found = {Fraction(margin) for margin in rows_of(release, table)[margins[0]].unique()}
        assert found <= expected, name
        known = [law["margin"] for law in table.noise if law.get("margin") is not None]
        assert set(known) <= expected
        assert len(known) == len(set(known)), "the law of a count is found by its margin"
        stated += len(found)
    assert stated or "margins" in case.cannot


@every()
def test_a_release_is_checked_shown_and_read_by_whatever_reads_releases(finished: Finish, case: Case) -> None:
    """`das check`, `das show` in the terminal, as CSV and as Excel, and pandas by `read_release`."""
    release = finished(case).release
    if "forgeries" in case.cannot:  # test_forgeries.py checks the others
        ended = das("check", release, "--json")
        assert (ended.code, [each for each in json.loads(ended.out)["checks"] if each["faults"]]) == (0, [])
    frame = read_release(release)
    assert len(frame)
    assert frame["count"].notna().all()
    listed = json.loads(das("show", release, "--json").out)["tables"]
    name = next(each["name"] for each in listed if each["name"] in tables(release))
    table = tables(release)[name]
    lines = das("show", release, "--table", name, "--format", "csv").out.splitlines()
    assert {*table.column_names} <= {*lines[0].split(",")}
    pages = open_release(release)
    book = load_workbook(BytesIO(bytes(_answer(pages, {"view": f"table/{name}", "format": "xlsx"}).body)))
    assert [len([*book["data"].values]), len(lines)] == [len(rows_of(release, table)) + 1] * 2
    meanings = {row[0]: row[-1] for row in book["columns"].values}
    assert all(column.meaning in str(meanings[column.name]) for column in table.columns)


@every(but="accuracy")
def test_errors_are_of_marked_data_alone(new_home: Callable[..., Home], case: Case) -> None:
    home = new_home(case)
    exact = case.exact.format(home=home.folder).split()
    words = ("accuracy", *home.paths, *exact, *home.options, "--runs", 1, "--json")
    ended = home.das(*words, *home.where)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1].startswith("refused: ")
    home.mark()
    ended = home.das(*words, *home.where)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["NOT_PRIVATE"]
    assert "NOT PRIVATE" in ended.err
    assert home.rows() == []


@every()
def test_the_table_that_the_readme_reads_is_sorted_by_its_count(finished: Finish, case: Case) -> None:
    """R sorts no text the other way round."""
    release = finished(case).release
    text = (release / README).read_text()
    found = re.search(r'read_parquet\("([^"]*)"\)\n.*sort_values\("([^"]*)"', text)
    if not (release / "tables").exists():
        assert found is None
        return
    assert found is not None
    path, column = found.groups()
    table = pq.read_table(release / path)
    kind = table.schema.field(column).type
    assert pa.types.is_integer(kind) or pa.types.is_floating(kind)
    named = [each for each in read_package(release, read_manifest(release)["files"]) if path in each.paths]
    assert [each.name for each in named[0].with_role("count")] == [column]


@every()
def test_no_table_has_decimals_or_unsigned_64_bit_numbers(finished: Finish, case: Case) -> None:
    """Arrow for JavaScript prints a decimal64 of -1.10 as 18446744073709551506; R and spreadsheets have neither."""
    release = finished(case).release
    wrong = {
        (path.relative_to(release).as_posix(), field.name, str(field.type))
        for path in release.rglob("*.parquet")
        for field in pq.read_schema(path)
        if pa.types.is_decimal(field.type) or pa.types.is_uint64(field.type)
    }
    assert wrong == set()
