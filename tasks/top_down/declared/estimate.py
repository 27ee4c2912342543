"""Estimate the histograms of a declaration from the measurements of its release: no records, no secret, no account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from spine.top_down.histogram import Product
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.manifest import marked
from tasks.lifecycle.workers import Workers
from tasks.top_down.declared.description import MEASUREMENTS, geounit_columns
from tasks.top_down.declared.measure import OfDeclaration
from tasks.top_down.declared.measurements import Measurements
from tasks.top_down.declared.public_tables import PUBLIC, assemble
from tasks.top_down.declared.release import describe, write_levels
from tasks.top_down.declared.tabulate import ALL
from tasks.top_down.estimate.topdown import estimate_by_topdown
from tasks.top_down.published import release_source
from tasks.top_down.published.release_source import ReleaseSource
from tasks.top_down.published.source import LARGEST_NATION, save_origin
from tasks.top_down.source import Origin

MARK = "prepared/mark"


@dataclass(frozen=True)
class DeclaredEstimate(OfDeclaration, ReleaseSource):
    """The measurements of a declaration's release."""

    def schema(self, _product: Any) -> Product:
        """Return the histogram of the declaration."""
        return self.declared.declaration.product

    def queries(self, _product: Any, level: str) -> tuple[str, ...]:
        """Return the queries that the level was asked."""
        return tuple(self.declared.declaration.queries(level))

    def columns_of_geounits(self, level: str) -> tuple[str, ...]:
        """Return the columns that name the geounits of a level."""
        return tuple(column.name for column in geounit_columns(self.declared.declaration, level))

    def geounits(self, _product: Any, _state: str, level: str) -> pa.Array:
        """Return the names of the geounits of a level, as its file has them."""
        hierarchy = self.declared.hierarchy
        codes = hierarchy.codes(hierarchy.spine.levels.index(level))
        rows = zip(*(codes[name].tolist() for name in self.columns_of_geounits(level)), strict=True)
        return pa.array([release_source.JOIN.join(row) for row in rows] or [""], pa.large_string())

    def file(self, _product: Any, _state: str, level: str) -> str:
        """Return the file of a level's answers."""
        return f"{MEASUREMENTS}/{level}.parquet"

    def largest_count(self, _product: Any, _state: str) -> int:
        """Return what no count can exceed."""
        totals = self.declared.bounds.totals[0]
        return LARGEST_NATION if totals is None else int(totals.values.sum())


@dataclass(frozen=True)
class PublishedDeclaration:
    """The measurements of a declaration's release, not yet read."""

    measurements: Measurements
    jurisdiction: str = ALL

    def read(self, path: Path, workers: Workers, _changes: Mapping[str, Any], _only: Sequence[str]) -> DeclaredEstimate:
        """Read them into a directory, and validate every answer. Raises Refused."""
        return open_measurements(self.measurements, path, workers)


def open_measurements(measurements: Measurements, path: Path, workers: Workers) -> DeclaredEstimate:
    """Read the measurements of a release into a directory, and validate every answer. Raises Refused."""
    _, findings = assemble(measurements.public)
    if findings:
        raise Refused(f"the declaration does not pass: {findings[0].column}: {findings[0].rule}")
    source = DeclaredEstimate(path)
    save_object(source / PUBLIC, measurements.public)
    save_object(source / release_source.RELEASE, release_source.Measurements(measurements.folder, {}))
    save_object(source / MARK, marked(measurements.mark))
    save_origin(source, Origin(measurements.run))
    calls = [(source.name, ALL, level) for level in source.declared.plan.spine.levels]
    source.read_answers(workers, calls)
    return source


def write_estimate(source: DeclaredEstimate, workers: Workers, staged: Path) -> None:
    """Write the release of an estimate: histograms, manifest and report."""
    estimate_by_topdown(source, workers)
    write_levels(source, workers, staged)
    describe(source, staged, load_object(source / MARK, dict[str, str]))
