"""Stage 6, release: the published tables as the Bureau's files and as Parquet with margins of error.

T1: REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT; T2 adds AGESTART|AGEEND|SEX before COUNT
(docs/spec/files.md#detailed-dhc-a-release).
One file a population group level, its rows sorted by region, iteration, age and sex.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.detailed_dhca.coterminous import load_final
from tasks.detailed_dhca.domain import (
    AGE4,
    AGE9,
    AGE23,
    AGES,
    DETAILS,
    LAST_AGE,
    WIDTHS,
    Domain,
    load_domain,
    load_queries,
)
from tasks.detailed_dhca.manifest import write_manifest
from tasks.detailed_dhca.noise import is_truth
from tasks.detailed_dhca.suppression import Published, load_published
from tasks.detailed_dhca.validation import load_parameters
from tasks.inputs.configuration import Level, Region
from tasks.lifecycle.commit import clear_staging, drafts, staging
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers

SPINE, SEE_SPINE = "spine", "see spine/"  # the branch's folder, and how its line ends where it holds a spine
GROUPS_AT_ONCE = 100_000
SEXES = ("1", "2")
WRITE = pa.csv.WriteOptions(delimiter="|", quoting_style="none", quoting_header="none")


@dataclass(frozen=True)
class Margins:
    """95% margins of error by [level whose noise it is, detail]: of a table's total, a sex's sum, a single cell."""

    total: NDArray[np.int64]
    sex: NDArray[np.int64]
    cell: NDArray[np.int64]


def load_margins(run: RunDirectory, level: Level) -> Margins:
    """The margins that counts of a level can have: its own, or a coterminous donor's. Zero without noise."""
    levels = load_parameters(run).configuration.levels(level.region)
    shape = (len(levels), len(WIDTHS))
    margins = Margins(*(np.zeros(shape, np.int64) for _ in range(3)))
    if is_truth(run):
        return margins
    for place, other in enumerate(levels):
        if other.iteration_level != level.iteration_level:
            continue
        queries = load_queries(run, other)
        for detail in range(len(WIDTHS)):
            cells = int(WIDTHS[detail])
            margins.total[place, detail] = queries.margin(detail, cells)
            if detail in AGES:
                margins.sex[place, detail] = queries.margin(detail, cells // 2)
                margins.cell[place, detail] = queries.margin(detail, 1)
    return margins


def stage_release(
    run: RunDirectory, workers: Workers, region: Region, out: Path, options: Mapping[str, object], spine: str
) -> None:
    """Write the whole release into its staging folder: the tables of every level, then report and manifest.

    `spine` is the line that the manifest says of the spine branch; where it ends in SEE_SPINE, the branch's files lie
    in the folder already. Everything else there is of an earlier try and goes.
    """
    levels = load_parameters(run).configuration.levels(region)
    staged = staging(run, out, region)
    clear_staging(run, out, region, but=SPINE if spine.endswith(SEE_SPINE) else None)
    if is_truth(run):  # exact counts: their owner's only, as the release will be that the folder becomes
        for folder in (staged, drafts(staged)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    published = workers.map("release", run, write_level, [(level, staged) for level in levels])
    write_manifest(run, region, staged, dict(zip(levels, published, strict=True)), options, spine)


def write_level(run: RunDirectory, level: Level, out: Path) -> dict[str, int]:
    """Write t1 and t2 of a level, as text and Parquet, into OUT.

    Returns the number of groups published at each detail, a function of the release.
    """
    domain = load_domain(run, level)
    margins = load_margins(run, level)
    clip = not load_parameters(run).configuration.allow_negative_counts
    _write(out, "t1", level, t1_tables(domain, load_final(run, level), margins, clip=clip))
    _write(out, "t2", level, t2_tables(domain, load_final(run, level), margins, clip=clip))
    details = np.zeros(len(WIDTHS), np.int64)
    for piece in load_final(run, level):
        details += np.bincount(piece.detail, minlength=len(WIDTHS))
    return dict(zip(DETAILS, details.tolist(), strict=True))


def _write(out: Path, table: str, level: Level, batches: Iterator[pa.Table]) -> None:
    first = next(batches)
    with (
        _drafted(out, f"{table}/{level.slug}.csv") as text,
        _drafted(out, f"parquet/{table}/{level.slug}.parquet") as columns,
        pa.csv.CSVWriter(text, first.drop_columns(["MOE"]).schema, write_options=WRITE) as as_text,
        pq.ParquetWriter(columns, first.schema, compression="zstd") as as_parquet,
    ):
        while True:
            as_text.write_table(first.drop_columns(["MOE"]))
            as_parquet.write_table(first)
            if (following := next(batches, None)) is None:
                break
            first = following


@contextmanager
def _drafted(out: Path, name: str) -> Iterator[Path]:
    """Give a path outside of OUT for a file that is moved to OUT/name when whole.

    A worker that was lost to the cluster may still be writing when the retry of its piece is done: what it writes is
    never part of the release.
    """
    path, draft = out / name, drafts(out) / uuid4().hex
    for folder in (path.parent, draft.parent):
        folder.mkdir(parents=True, exist_ok=True)
    yield draft
    os.replace(draft, path)


def t1_tables(domain: Domain, published: Iterable[Published], margins: Margins, *, clip: bool) -> Iterator[pa.Table]:
    """T1 in batches: every published group's total with its margin. published: pieces of the level, in order."""
    for part in _batches(published):
        count = np.maximum(part.total, 0) if clip else part.total
        columns = _group_columns(domain, part.group)
        yield pa.table({**columns, "COUNT": count, "MOE": margins.total[part.noise_of, part.detail]})


def t2_tables(domain: Domain, published: Iterable[Published], margins: Margins, *, clip: bool) -> Iterator[pa.Table]:
    """T2 in batches: of every sex-by-age group the sums of each sex (AGESTART = AGEEND = *), then its cells by age."""
    for part in _batches(piece.take(np.flatnonzero(piece.widths)) for piece in published):
        widths = part.widths
        rows = widths + 2
        ends = np.cumsum(rows)
        size = int(ends[-1]) if len(ends) else 0
        count, margin = np.zeros(size, np.int64), np.zeros(size, np.int64)
        age, sex = np.zeros(size, np.int32), np.zeros(size, np.int32)
        cells_end = np.cumsum(widths)
        for detail in (AGE4, AGE9, AGE23):
            chosen = np.flatnonzero(part.detail == detail)
            width = int(WIDTHS[detail])
            cells = part.cells[(cells_end - widths)[chosen][:, None] + np.arange(width)].reshape(-1, 2, width // 2)
            by_age_then_sex = cells.transpose(0, 2, 1).reshape(-1, width)
            place = (ends - rows)[chosen][:, None] + np.arange(width + 2)
            count[place] = np.hstack([cells.sum(axis=2), by_age_then_sex])
            noise_of = part.noise_of[chosen]
            margin[place[:, :2]] = margins.sex[noise_of, detail][:, None]
            margin[place[:, 2:]] = margins.cell[noise_of, detail][:, None]
            age[place] = _age_labels(detail)
            sex[place] = np.arange(width + 2) % 2
        columns = _group_columns(domain, np.repeat(part.group, rows))
        start, end = (pa.array(labels).take(pa.array(age)) for labels in zip(*_AGE_RANGES, strict=True))
        columns |= {"AGESTART": start, "AGEEND": end, "SEX": pa.array(SEXES).take(pa.array(sex))}
        yield pa.table({**columns, "COUNT": np.maximum(count, 0) if clip else count, "MOE": margin})


# (AGESTART, AGEEND) of every row that a T2 table can have; a detail's rows are a run of them.
_AGE_RANGES = [("*", "*")]
_FIRST_RANGE = {}
for _detail, _starts in AGES.items():
    _FIRST_RANGE[_detail] = len(_AGE_RANGES)
    _ends = [start - 1 for start in _starts[1:]] + [LAST_AGE]
    _AGE_RANGES += [(str(start), str(end)) for start, end in zip(_starts, _ends, strict=True)]


def _age_labels(detail: int) -> NDArray[np.int32]:
    """The age range of each row of a T2 table: twice `*`, then every bin twice."""
    bins = np.repeat(np.arange(len(AGES[detail])), 2) + _FIRST_RANGE[detail]
    return np.concatenate([[0, 0], bins]).astype(np.int32)


def _group_columns(domain: Domain, group: NDArray[np.int64]) -> dict[str, pa.Array]:
    region, position = np.divmod(group, len(domain.iteration_codes))
    region_type = pa.array([domain.level.region_type]).take(pa.array(np.zeros(len(group), np.int32)))
    return {
        "REGION_ID": pa.array(domain.region_ids, pa.string()).take(pa.array(region)),
        "REGION_TYPE": region_type,
        "ITERATION_CODE": pa.array(domain.iteration_codes, pa.string()).take(pa.array(position)),
    }


def _batches(pieces: Iterable[Published]) -> Iterator[Published]:
    """Parts of GROUPS_AT_ONCE groups, wherever the pieces are cut, and the rest; an empty one of no group at all."""
    held, given = load_published([]), False
    for piece in pieces:
        held = Published.join([held, piece])
        whole = len(held.group) // GROUPS_AT_ONCE * GROUPS_AT_ONCE
        for start in range(0, whole, GROUPS_AT_ONCE):
            yield held.take(np.arange(start, start + GROUPS_AT_ONCE))
            given = True
        held = held.take(np.arange(whole, len(held.group)))
    if len(held.group) or not given:  # an empty table still has a header
        yield held
