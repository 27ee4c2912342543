"""Packages of tables as another program reads them by datapackage.json."""

from __future__ import annotations

import json
from pathlib import Path

import frictionless
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.releases.datapackage import PACKAGE_FILE


def validate_package(folder: Path) -> None:
    """Require that frictionless finds no fault and reads every row, and that whole numbers have no null."""
    resources = json.loads((folder / PACKAGE_FILE).read_text())["resources"]
    package = frictionless.Package(str(folder / PACKAGE_FILE))
    assert [each.name for each in package.resources] == [each["name"] for each in resources]
    report = package.validate()
    assert report.valid, [error for task in report.tasks for error in task.errors]
    for resource, task in zip(resources, report.tasks, strict=True):
        path = folder / resource["path"]
        if resource["format"] == "csv":
            assert task.stats["rows"] == len(path.read_text().splitlines()) - 1, path
            continue
        assert task.stats.get("rows", 0) == pq.read_metadata(path).num_rows, path
        for column in pq.read_schema(path):
            if pa.types.is_integer(column.type):
                assert pq.read_table(path, columns=[column.name])[column.name].null_count == 0, (path, column.name)
