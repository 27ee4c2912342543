"""A release describes itself: datapackage.json by the standard's profile and readers, dictionary.csv beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from show_release import with_estimates, with_margins

from flows.execution.systems import kind_of_release
from tasks.releases.datapackage import (
    DICTIONARY_COLUMNS,
    DICTIONARY_FILE,
    PACKAGE_FILE,
    read_package,
    resources_of,
    write_package,
)
from tasks.releases.description import Column, Description, Table, dictionary_rows
from tasks.releases.manifest import file_names, read_manifest
from tasks.releases.received import NotOfRelease
from tasks.top_down.published.nmf.inventory import AXES
from tasks.top_down.release.design_file import GEOGRAPHY
from tasks.top_down.release.measurement_files import Batch, QueryColumns, answer_rows
from tasks.top_down.release.tables import tables
from tests.hostile_releases import HOSTILE, HOSTILE_TEXTS, leaves


def package_of(release: Path) -> dict[str, Any]:
    package: dict[str, Any] = json.loads((release / PACKAGE_FILE).read_text())
    return package


def described(release: Path) -> Description:
    """The description of a release by its system."""
    manifest = read_manifest(release)
    kind = kind_of_release(manifest["release"])
    assert kind is not None
    made: Description = kind.part("description")(manifest)
    return made


def test_the_cells_and_the_counts_of_a_histogram_are_tables(top_down_released: Path) -> None:
    axes = {"GQTYPE_PL": range(8), "VOTING_AGE": (1, 2), "CENHISP": (1, 2), "CENRACE": range(1, 64)}
    cells = pd.read_csv(top_down_released / "cells/persons.csv", sep="|")
    in_order = pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)  # C order
    pd.testing.assert_frame_equal(cells, in_order.reset_index(names="cell"))
    counts = pd.read_csv(top_down_released / "cells/persons-counts.csv", sep="|").merge(cells, on="cell")
    assert counts["count"].value_counts()["total"] == 2016
    adults, asian = (counts[counts["count"] == name] for name in ("voting age", "race: Asian"))
    assert (len(adults), set(adults.VOTING_AGE)) == (1008, {2})
    assert (len(asian), set(asian.CENRACE)) == (32, {4})


def test_estimates_and_margins_name_the_counts_that_they_are_of(
    released: Path, top_down_released: Path, tmp_path: Path
) -> None:
    shutil.copytree(top_down_released, tmp_path / "margins")
    for release, of in (
        (with_estimates(released, tmp_path / "estimates"), "t2-county-1"),
        (with_margins(tmp_path / "margins"), "histograms-persons-tabulation-county"),
    ):
        resources = resources_of(release, described(release), file_names(release))
        by_name = {resource.name: resource for resource in resources}
        (estimates,) = [resource for resource in resources if resource.of == of and not resource.is_text]
        assert estimates.dependent
        assert by_name[of].counts
        margin, estimate = estimates.with_role("margin")[0], estimates.with_role("estimate")[0]
        assert margin.of in (estimate.name, "released")


def test_dictionary_has_every_column_and_code(released: Path) -> None:
    header, *rows = [line.split("|") for line in (released / DICTIONARY_FILE).read_text().splitlines()]
    assert tuple(header) == DICTIONARY_COLUMNS
    assert {len(row) for row in rows} == {len(header)}
    assert [row for row in rows if row[:2] == ["t2/*.csv", "SEX"]] == [
        ["t2/*.csv", "SEX", "code", "", "the sex of the cell"],
        ["t2/*.csv", "SEX", "", "1", "male"],
        ["t2/*.csv", "SEX", "", "2", "female"],
    ]
    assert not any(row[:2] == ["t2/*.csv", "MOE"] for row in rows)  # only in Parquet
    assert not any(row[0].startswith("estimates/") for row in rows)  # of no table that is not there


def test_the_layout_of_the_bureau_is_described() -> None:
    (nmf,) = [table for table in tables() if table.parquet.startswith("nmf/")]
    for product, axes in AXES.items():
        constraint, one = QueryColumns("total_con", ("*",) * len(axes), (1,), "="), np.ones((1, 1))
        batch = Batch(np.full((1, 16), ord("0"), np.uint8), one.astype(np.int64), one, one)
        rows = answer_rows([*axes], [constraint], batch, pa.int64())
        assert all(nmf.column(name) for name in rows.column_names), product


def test_all_that_a_geography_may_have_is_described() -> None:
    """A small release may lack it: school districts, say."""
    (blocks,) = [each for each in tables() if each.parquet == "measurements/blocks/{state}.parquet"]
    assert {*GEOGRAPHY} <= {column.name for column in blocks.columns}


def test_files_of_one_shape_are_one_table_or_its_parts(tmp_path: Path) -> None:
    number = Column("n", "persons", "how many", type="integer", role="count")
    others = Column("by_*", "code", "a group")
    table = Table("By {group}", (others, number), text="by/{group}/{state}.csv", split="state", key=("*",))
    only = replace(table, title="Only x", text="by/{group=x}/{state}.csv")
    for name in ("x/44", "y/44", "y/45"):
        (tmp_path / "by" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"by/{name}.csv").write_text("by_A|n\nx|1\n")
    made = Description((only, table), names={"group": {"x": "x", "y": "wealth"}})
    names = ["by/y/45.csv", "by/x/44.csv", "by/y/44.csv"]
    write_package(tmp_path, made, {"release": "A toy", "run": "r"}, names)
    x, y = read_package(tmp_path, [PACKAGE_FILE, *names])
    assert (x.name, x.title, x.where, y.title) == ("by-x", "Only x", {"group": "x"}, "By wealth")
    assert (y.paths, y.parts) == (("by/y/44.csv", "by/y/45.csv"), {"state": ["44", "45"]})
    assert [column.name for column in y.columns] == ["by_A", "n"]
    assert y.key == ("by_A",)
    one, *parts = package_of(tmp_path)["resources"]
    assert [one["name"], *((each["name"], each["das:table"], each["path"]) for each in parts)] == [
        "by-x",
        ("by-y-44", "by-y", "by/y/44.csv"),
        ("by-y-45", "by-y", "by/y/45.csv"),
    ]
    parts[1]["schema"]["fields"] = parts[1]["schema"]["fields"][:1]
    (tmp_path / PACKAGE_FILE).write_text(json.dumps({"resources": [one, *parts]}))
    with pytest.raises(NotOfRelease, match="describes the files of table 'by-y' in different ways"):
        read_package(tmp_path, [PACKAGE_FILE, *names])
    assert [row[:2] for row in dictionary_rows(made.tables, y.paths)] == [("by/*/*.csv", "by_*"), ("by/*/*.csv", "n")]


def hostile(package: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The description with one value after the other replaced or gone."""
    values = [*HOSTILE, *HOSTILE_TEXTS, "manifest.json", "/etc/passwd"]
    for number, path in enumerate(leaves(package)):
        changed = parent = json.loads(json.dumps(package))
        for name in path[:-1]:
            parent = parent[name]
        if number % 5:
            parent[path[-1]] = values[number % len(values)]
        else:
            del parent[path[-1]]
        yield changed


def test_a_description_that_somebody_changed_is_read_or_refused(bottom_up_released: Path, tmp_path: Path) -> None:
    release = Path(shutil.copytree(bottom_up_released, tmp_path / "release"))
    named, refused = read_manifest(release)["files"], 0
    for changed in hostile(package_of(release)):
        (release / PACKAGE_FILE).write_text(json.dumps(changed))
        try:
            resources = read_package(release, named)
        except NotOfRelease:
            refused += 1
        else:
            assert all(path in named for resource in resources for path in resource.paths)
    assert refused > 50
    for part, evil in (("dialect", {"delimiter": r"(\w+)+!"}), ("path", ["histogram.csv"] * 100_000)):
        changed = package_of(bottom_up_released)
        next(one for one in changed["resources"] if one["name"] == "histogram-text")[part] = evil
        (release / PACKAGE_FILE).write_text(json.dumps(changed))
        with pytest.raises(NotOfRelease, match=r"ValidationError|'histogram\.csv' twice"):
            read_package(release, named)
    with pytest.raises(NotOfRelease, match=r"has no datapackage\.json"):
        read_package(release, [])
