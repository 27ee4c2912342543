"""The details of a group's table: a total, or counts by sex and age in one of three sets of age bins (paper 5.3.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privacy.tables.published import Published, PublishedRow
from tasks.safetab.persons.person import AGE23_BINS, CELLS, LAST_AGE

# 0 to 3 are the outcomes of step 1 (its stat level); TOTAL_ONLY is known beforehand.
TOTAL, AGE4, AGE9, AGE23, TOTAL_ONLY = range(5)
DETAILS = ("total", "age4", "age9", "age23", "total_only")
AGES = {
    AGE4: (0, 18, 45, 65),
    AGE9: (0, 5, 18, 25, 35, 45, 55, 65, 75),
    AGE23: AGE23_BINS,
}
WIDTHS = np.array([2 * len(AGES[detail]) if detail in AGES else 1 for detail in range(len(DETAILS))])  # cells measured
AGE_RANGES = {  # first and last ages of a detail's bins; the last is open
    detail: list(zip(starts, [*(start - 1 for start in starts[1:]), LAST_AGE], strict=True))
    for detail, starts in AGES.items()
}
SEXES = {1: "male", 2: "female"}  # by code; cells are males by age, then females by age
SHAPES = DETAILS[:TOTAL_ONLY]  # details of published tables: a TotalOnly group is published as a total
CELLS_OF = dict(zip(SHAPES, WIDTHS.tolist(), strict=False))  # cells of a published table
BY_AGE = SHAPES[AGE4:]  # the tables of sex by age
FINEST = BY_AGE[-1]
TABLE_NAMES = {DETAILS[TOTAL]: "total"} | {DETAILS[at]: f"sex by {len(bins)} ages" for at, bins in AGES.items()}
AGES_NAMES = {name: words.removeprefix("sex by ") for name, words in TABLE_NAMES.items()}  # after "sex by"


for _starts in AGES.values():
    if _starts[0] != 0 or not set(_starts) <= set(AGE23_BINS) or list(_starts) != sorted(set(_starts)):
        raise ValueError(f"the ages {_starts} must begin at 0, rise, and be first ages of AGE23_BINS: cells add up")


def query_of(detail: int) -> str:
    """Return the query that measured the cells of a published table (Algorithm 2)."""
    return "total_only" if detail == TOTAL_ONLY else "stage_2"


def _rows(detail: int) -> tuple[PublishedRow, ...]:
    """Return the rows of a table of sex by age: the sum of each sex, then the cells by age and sex."""
    ages = len(AGES[detail])
    cells = [range(place * ages, (place + 1) * ages) for place in range(len(SEXES))]  # each sex's cells, by age
    sums = [
        PublishedRow(("*", "*", str(sex)), words, tuple(of))
        for (sex, words), of in zip(SEXES.items(), cells, strict=True)
    ]
    return (
        *sums,
        *(
            PublishedRow((str(start), str(end), str(sex)), f"{words}, {age_label(start, end)}", (of[age],))
            for age, (start, end) in enumerate(AGE_RANGES[detail])
            for (sex, words), of in zip(SEXES.items(), cells, strict=True)
        ),
    )


def age_label(start: int, end: int) -> str:
    """Return an age range in words: `0–4`, `20`, `85 and over`."""
    if end >= LAST_AGE:
        return f"{start} and over"
    return f"{start}" if start == end else f"{start}–{end}"


def in_bins(cells: NDArray[np.int64], detail: int) -> NDArray[np.int64]:
    """Add up rows of 46 cells, by sex and age23, to sex and the age bins of a detail."""
    bins = np.searchsorted(AGES[AGE23], AGES[detail])  # every age bin is a range of age23 bins
    by_sex = cells.reshape(len(cells), 2, CELLS // 2)
    return np.add.reduceat(by_sex, bins, axis=2).reshape(len(cells), 2 * len(bins))


def _published(title: str, detail: int, columns: Sequence[str], rows: Sequence[PublishedRow]) -> Published:
    name = f"{title} of population groups"
    return Published(DETAILS[detail], name, query_of(detail), "persons", tuple(columns), tuple(rows), "sex and age")


T1 = {  # by detail: the sum of all cells
    detail: _published("Totals", detail, (), [PublishedRow((), "all persons", tuple(range(width)))])
    for detail, width in enumerate(WIDTHS.tolist())
}
T2 = {detail: _published("Sex by age", detail, ("AGESTART", "AGEEND", "SEX"), _rows(detail)) for detail in AGES}
TABLES = {"t1": T1, "t2": T2}
