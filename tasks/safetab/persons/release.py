"""Release: the published tables as the Bureau's files and as Parquet with margins of error.

T1: REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT; T2 adds AGESTART|AGEEND|SEX before COUNT
(docs/spec/files.md#detailed-dhc-a-release).
One file a population group level, its rows sorted by region, iteration, age and sex. Estimates, where a run makes them,
are tables of the same kind in folders of their own, with ESTIMATE and MOE in place of COUNT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.estimation.allocation import sex_margin
from spine.settings import Jurisdiction
from tasks.lifecycle.staging import SEE_SPINE, SPINE, open_staging
from tasks.lifecycle.workers import Workers
from tasks.safetab.description import write_tabulated
from tasks.safetab.domain import Domain, load_domain
from tasks.safetab.group_tables import (
    batches,
    group_columns,
    groups_by_detail,
    load_final,
    margins_by_level,
    write_table,
)
from tasks.safetab.levels import Level
from tasks.safetab.persons.details import AGE_RANGES, AGES, DETAILS, SEXES, WIDTHS, query_of
from tasks.safetab.persons.manifest import describe_release
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.persons.suppression import EstimatedGroups, PublishedGroups

# (AGESTART, AGEEND) of every row that a T2 table can have; a detail's rows are a run of them.
_AGE_RANGES = [("*", "*")]
_FIRST_RANGE = {}
for _detail, _ranges in AGE_RANGES.items():
    _FIRST_RANGE[_detail] = len(_AGE_RANGES)
    _AGE_RANGES += [(str(start), str(end)) for start, end in _ranges]


def stage_release(
    run: DetailedRun, workers: Workers, jurisdiction: Jurisdiction, out: Path, options: Mapping[str, object], spine: str
) -> None:
    """Write the whole release into its staging folder: every level's tables, what is tabulated, report and manifest.

    `spine` is the line that the manifest says of the spine branch; where it ends in SEE_SPINE, the branch's files lie
    in the folder already. Everything else there is of an earlier try and goes.
    """
    levels = run.parameters.configuration.levels(jurisdiction)
    staged = open_staging(run, out, jurisdiction, except_for=[SPINE] if spine.endswith(SEE_SPINE) else [])
    each = [(level, table, staged) for level in levels for table in ("t1", "t2")]
    workers.map("release", run, write_tables, each)
    groups = workers.map("release", run, groups_by_detail, [(level, PublishedGroups) for level in levels])
    published = {level: dict(zip(DETAILS, numbers, strict=True)) for level, numbers in zip(levels, groups, strict=True)}
    write_tabulated(run, jurisdiction, staged)
    estimated = None
    if options.get("estimates"):
        workers.map("release of estimates", run, write_tables, [(*one, EstimatedGroups) for one in each])
        dropped = workers.map("release of estimates", run, dropped_estimates, [(level,) for level in levels])
        estimated = dict(zip(levels, dropped, strict=True))
    describe_release(run, jurisdiction, staged, published, options, spine, estimated)


def write_tables(
    run: DetailedRun, level: Level, table: str, out: Path, kind: type[PublishedGroups] = PublishedGroups
) -> None:
    """Write t1 or t2 of a level, of its counts or its estimates, as text and Parquet, into OUT."""
    clip = not run.parameters.configuration.allow_negative_counts
    pieces = (piece.released() for piece in load_final(run, level, kind))
    make = {"t1": t1_tables, "t2": t2_tables}[table]
    parts = make(load_domain(run, level), pieces, load_margins(run, level), clip=clip, column=kind.COLUMN)
    write_table(out, kind, table, level, parts)


def dropped_estimates(run: DetailedRun, level: Level) -> int:
    """Return how many estimates of a level the ancestor test left out."""
    return sum(int(piece.dropped.sum()) for piece in load_final(run, level, EstimatedGroups))


@dataclass(frozen=True)
class CountMargins:
    """95% margins of error by [level whose noise it is, detail]: of a table's total, a sex's sum, a single cell."""

    total: NDArray[np.int64]
    sex: NDArray[np.int64]
    cell: NDArray[np.int64]

    def of_totals(self, part: PublishedGroups) -> NDArray[np.int64]:
        """Return the margin of each group's total."""
        if isinstance(part, EstimatedGroups):
            return part.margin
        return self.total[part.noise_of, part.detail]

    def of_sexes(self, part: PublishedGroups) -> NDArray[np.int64]:
        """Return the margin of each group's sum over one sex."""
        if isinstance(part, EstimatedGroups):
            return sex_margin(part.margin, self.total[part.noise_of, part.detail])
        return self.sex[part.noise_of, part.detail]

    def of_cells(self, part: PublishedGroups) -> NDArray[np.int64]:
        """Return the margin of each of a group's cells: for an estimate the count's, which covers it too."""
        return self.cell[part.noise_of, part.detail]


def load_margins(run: DetailedRun, level: Level) -> CountMargins:
    """Return the margins that counts of a level can have: its own, or a coterminous donor's. Zero without noise."""

    def of(summed: Callable[[int], int]) -> NDArray[np.int64]:
        sums = [(query_of(detail), summed(cells)) for detail, cells in enumerate(WIDTHS.tolist())]
        return margins_by_level(run, level, PublishedGroups, sums)

    return CountMargins(total=of(lambda cells: cells), sex=of(lambda cells: max(cells // 2, 1)), cell=of(lambda _: 1))


def t1_tables(
    domain: Domain, published: Iterable[PublishedGroups], margins: CountMargins, *, clip: bool, column: str = "COUNT"
) -> Iterator[pa.Table]:
    """Yield T1 in batches: every published group's total with its margin. published: pieces of the level, in order."""
    for part in batches(published, PublishedGroups):
        count = np.maximum(part.total, 0) if clip else part.total
        columns = group_columns(domain, part.group)
        yield pa.table({**columns, column: count, "MOE": margins.of_totals(part)})


def t2_tables(
    domain: Domain, published: Iterable[PublishedGroups], margins: CountMargins, *, clip: bool, column: str = "COUNT"
) -> Iterator[pa.Table]:
    """Yield T2 in batches: of every sex-by-age group the sum of each sex (AGESTART = AGEEND = *), then cells by age."""
    for part in batches((piece.take(np.flatnonzero(piece.widths)) for piece in published), PublishedGroups):
        rows = part.widths + 2
        ends = np.cumsum(rows)
        size = int(ends[-1]) if len(ends) else 0
        count, margin = np.zeros(size, np.int64), np.zeros(size, np.int64)
        age, sex = np.zeros(size, np.int32), np.zeros(size, np.int32)
        of_sexes, of_cells = margins.of_sexes(part), margins.of_cells(part)
        for detail in AGES:
            chosen = np.flatnonzero(part.detail == detail)
            width = int(WIDTHS[detail])
            cells = part.cells[part.places(detail)].reshape(-1, 2, width // 2)
            by_age_then_sex = cells.transpose(0, 2, 1).reshape(-1, width)
            place = (ends - rows)[chosen][:, None] + np.arange(width + 2)
            count[place] = np.hstack([cells.sum(axis=2), by_age_then_sex])
            margin[place[:, :2]] = of_sexes[chosen][:, None]
            margin[place[:, 2:]] = of_cells[chosen][:, None]
            age[place] = _age_labels(detail)
            sex[place] = np.arange(width + 2) % 2
        columns = group_columns(domain, np.repeat(part.group, rows))
        start, end = (pa.array(labels).take(pa.array(age)) for labels in zip(*_AGE_RANGES, strict=True))
        columns |= {"AGESTART": start, "AGEEND": end, "SEX": pa.array(map(str, SEXES)).take(pa.array(sex))}
        yield pa.table({**columns, column: np.maximum(count, 0) if clip else count, "MOE": margin})


def _age_labels(detail: int) -> NDArray[np.int32]:
    """Return the age range of each row of a T2 table: twice `*`, then every bin twice."""
    bins = np.repeat(np.arange(len(AGES[detail])), 2) + _FIRST_RANGE[detail]
    return np.concatenate([[0, 0], bins]).astype(np.int32)
