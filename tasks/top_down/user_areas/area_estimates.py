"""Estimate a user's areas: check that their blocks are the source's, estimate, and judge a districting plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privacy.noise.margins import Z90, Z95
from spine.geography import FloatArray, IntArray
from tasks.errors import Refused
from tasks.geography.blocks.area_file import AreaFile, shown_examples
from tasks.geography.blocks.area_names import UNASSIGNED
from tasks.records.block_codes import COUNTY_UNIT, STATE_UNIT, TRACT_UNIT, find_blocks
from tasks.releases.pages.words import count_title
from tasks.top_down.estimate.gls.tree import columns_of
from tasks.top_down.run_plan import PRODUCTS
from tasks.top_down.user_areas.area_tables import interval
from tasks.top_down.user_areas.deviations import Deviations, deviations, shares
from tasks.top_down.user_areas.estimate_areas import ProductEstimates, estimate_areas
from tasks.top_down.user_areas.hearing import WITHIN
from tasks.top_down.user_areas.published_counts import PublishedCounts
from tasks.top_down.user_areas.state_cache import CachedState

EMPTY_TRACTS = (9800, 9999)  # tracts of land use and of water, most of them without living quarters
FOREIGN = 0.02  # share of codes in tracts that the source lacks, above which they belong to another census
COUNTED = (
    "An interval is for the count that the census took. It says nothing about persons whom the census missed or "
    "counted twice."
)
BELONGS = (
    "An interval belongs to the estimate, not to the published figure. Where an area cuts block groups of the "
    "spine, the published figure is usually nearer to the count than the estimate is."
)
HOW = (
    "The estimate is the best linear unbiased one from all noisy measurements of the state and its declared "
    "numbers: its population, and the housing units and group quarters of every block. That nobody under 18 is in a "
    "nursing facility is not used. It is not rounded and may be negative. Its standard error is exact and follows from "
    "the published variances of the noise; the law of its error is nearly normal."
)
CUT = (
    "Cut groups are block groups of the spine that an area holds in part. They make a standard error large: the "
    "total of a block is known much less well than that of its group."
)
MISSED = 0.01  # largest share of a state's blocks outside all districts for which these are judged as its plan
SEVERAL = "Each state is estimated by itself; an area of several states is the sum of its parts."


@dataclass(frozen=True)
class AreaEstimates:
    """The estimates of areas.

    names: the areas'; the last is UNASSIGNED if blocks are outside all areas. published: by product, (areas, counts),
    if published counts are given. plan: if the areas divide a state. shares: by race, its (areas,) share of the voting
    age population and standard error. notes: about the blocks. banners: warnings about the figures. reading: how to
    read them. within: the limit for a plan's range, a share. file, published_file: the names of the files of the areas
    and of the published counts. unjudged: why areas that divide a state are not judged as a plan. read: the blocks of
    the areas.
    """

    source: str
    states: tuple[str, ...]
    names: tuple[str, ...]
    estimated: dict[str, ProductEstimates]
    published: dict[str, IntArray]
    plan: Deviations | None
    shares: dict[str, tuple[FloatArray, FloatArray]]
    notes: tuple[str, ...]
    banners: tuple[str, ...]
    reading: tuple[str, ...]
    within: float = WITHIN
    file: str = ""
    published_file: str = ""
    unjudged: str = ""
    read: AreaFile | None = None

    @property
    def districts(self) -> tuple[str, ...]:
        """The names of the areas, without the row of unassigned blocks."""
        return tuple(name for name in self.names if name != UNASSIGNED)

    @property
    def shown(self) -> tuple[str, ...]:
        """The names of the areas with rows; for a single area, the rest of its state has no row."""
        return self.districts if len(self.districts) == 1 else self.names

    @property
    def counts(self) -> list[str]:
        """The names of the counts."""
        return [name for found in self.estimated.values() for name in found.names]

    def rows(self, counts: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return a row per area and count (docs/published.md#areas), of these counts or of all."""
        return [
            {
                "area": name,
                "count": count,
                "words": count_title(count),
                "blocks": int(found.blocks[at]),
                "groups_whole": int(found.whole[at]),
                "groups_cut": int(found.cut[at]),
                "published": int(self.published[product][at, k]) if product in self.published else None,
                **_numbers(float(found.estimate[at, k]), float(found.error[at, k])),
            }
            for at, name in enumerate(self.shown)
            for product, found in self.estimated.items()
            for k, count in enumerate(found.names)
            if count in (counts or found.names)
        ]


def _numbers(estimate: float, error: float) -> dict[str, float | int]:
    ends = {"90": interval(estimate, error, Z90), "95": interval(estimate, error, Z95)}
    return {
        "estimate": round(estimate, 3) + 0.0,
        "standard_error": round(error, 3),
        **{f"{end}_{level}": ends[level][at] for level in ends for at, end in enumerate(("low", "high"))},
    }


def estimate_file(
    kept: Sequence[CachedState],
    file: AreaFile,
    source: str,
    published: PublishedCounts | None,
    banners: tuple[str, ...] = (),
    *,
    published_is_estimate: bool = False,
) -> AreaEstimates:
    """Return the estimates of the areas of a file.

    published_is_estimate: the published counts are an estimate, not a publication. Raises Refused if the file's codes
    are not the source's blocks.
    """
    states = tuple(state.about.state for state in kept)
    products = [product for product in PRODUCTS if all(product in state.about.levels for state in kept)]
    universe = np.sort(np.concatenate([state.codes(products[0]) for state in kept]))
    checked = check_codes(file, universe)
    file = without_empty_areas(file, universe)
    notes = [*file.notes, *checked]
    unassigned = universe[_areas_of(file, universe) == len(file.names)]
    outside = f"{len(unassigned):,} of the {len(universe):,} blocks with living quarters ({_shown(unassigned)})"
    names, remark = file.names, ""
    if len(unassigned):
        names = (*names, UNASSIGNED)
        if len(file.names) > 1:
            notes.append(f"blocks of the state outside all areas: {len(unassigned):,}, the row {UNASSIGNED}")
        remark = f"In no district are {outside}: assign them. Until then the ideal is the mean of the districts."
    estimated: dict[str, ProductEstimates] = {}
    of_published: dict[str, IntArray] = {}
    for product in products:
        areas = [_areas_of(file, state.codes(product)) for state in kept]
        estimated[product] = estimate_areas(kept, product, areas, len(names))
        if published is not None:
            sums = np.add.reduce([_summed(file, *published(product, state)) for state in states])
            of_published[product] = sums[: len(names)]
    persons = estimated.get("persons")
    notes = [*_understood(file, len(unassigned), persons, of_published.get("persons")), *notes]
    divided = len(states) == 1 and len(file.names) > 1
    judged = divided and len(unassigned) <= MISSED * len(universe)
    plan, unjudged = None, ""
    if judged and persons is not None:
        plan = _plan(persons, of_published.get("persons"), kept[0].about.total, remark, published_is_estimate)
    elif divided and not judged and len(unassigned) < len(universe) / 2:
        unjudged = (
            f"Not judged as a plan: in no district are {outside}, more than {MISSED:.0%}. Assign them and ask again."
        )
    return AreaEstimates(
        source,
        states,
        names,
        estimated,
        of_published,
        plan,
        {} if persons is None else shares(persons),
        tuple(notes),
        banners,
        (HOW, COUNTED, BELONGS, CUT, *((SEVERAL,) if len(states) > 1 else ())),
        unjudged=unjudged,
        read=file,
    )


def _plan(
    persons: ProductEstimates, published: IntArray | None, total: int, remark: str, is_estimate: bool
) -> Deviations | None:
    """Return the deviations of areas that divide a state; None if they are too many for covariances.

    remark: describes the blocks outside every area, which form the last row; "" without such blocks.
    """
    if persons.covariances.values.ndim < 3:
        return None
    covariance = persons.covariances.of(columns_of("persons", minority=True), "total", "total")
    own = slice(len(covariance) - bool(remark))
    off = None if published is None else published[own, 0]
    found = deviations(persons.estimate[own, 0], covariance[own, own], total, off, whole=not remark)
    return replace(found, remark=remark, published_is_estimate=is_estimate, groups_cut=persons.groups_cut)


def _areas_of(file: AreaFile, code: IntArray) -> IntArray:
    """Return the number of each block's area; unassigned blocks have the number after the last."""
    row, there = find_blocks(file.code, code)
    return np.where(there, file.area[row], len(file.names))


def _summed(file: AreaFile, code: IntArray, counts: IntArray) -> IntArray:
    """Return the (areas + 1, counts) sums of blocks; the last row is that of unassigned blocks."""
    sums = np.zeros((len(file.names) + 1, counts.shape[1]), np.int64)
    np.add.at(sums, _areas_of(file, code), counts)
    return sums


def without_empty_areas(file: AreaFile, universe: IntArray) -> AreaFile:
    """Return a file without the areas that lack blocks with living quarters. universe: their sorted codes.

    Raises Refused if the area 0 has so few of these blocks that it may mark unassigned ones.
    """
    row, there = find_blocks(file.code, universe)
    blocks = np.bincount(file.area[row[there]], minlength=len(file.names))
    notes = []
    if file.doubtful and (own := int(blocks[file.names.index(file.doubtful)])):
        decide = f"add --unassigned {file.doubtful} if its blocks are in no area, --unassigned '' if it is an area"
        if own < (blocks.sum() - own) / (len(blocks) - 1) / 2:
            raise Refused(f"the area {file.doubtful} has {own:,} blocks, far fewer than the others: {decide}")
        notes.append(f"{file.doubtful} is taken for an area, with {own:,} blocks that have living quarters: {decide}")
    if blocks.all() or not blocks.any():
        return replace(file, notes=(*file.notes, *notes))
    empty = [name for name, number in zip(file.names, blocks.tolist(), strict=True) if not number]
    notes.append(f"areas without a block that has living quarters, left out: {len(empty):,} ({shown_examples(empty)})")
    kept = blocks[file.area] > 0
    place = np.cumsum(blocks > 0) - 1
    names = tuple(name for name in file.names if name not in empty)
    return replace(file, code=file.code[kept], area=place[file.area[kept]], names=names, notes=(*file.notes, *notes))


def _understood(
    file: AreaFile, unassigned: int, persons: ProductEstimates | None, published: IntArray | None
) -> Iterator[str]:
    """Yield, in one line, what was read from a file and, for several areas, the persons outside all of them."""
    if not file.columns:
        return
    said = f"{file.columns}: {len(file.names):,} area{'s' * (len(file.names) > 1)}"
    if len(file.names) > 1 and persons is not None:
        rest = "every block with living quarters is in one"
        if unassigned:
            number, by = float(persons.estimate[-1, 0]), "by the estimate"
            if published is not None:
                number, by = float(published[-1, 0]), "as published"
            rest = f"outside them are {unassigned:,} blocks with living quarters, where {number:,.0f} persons live {by}"
        said += f" of {len(file.code):,} blocks; {rest}"
    yield said


def check_codes(file: AreaFile, universe: IntArray) -> list[str]:
    """Return notes on codes of blocks without living quarters. universe: sorted codes of blocks with them.

    Raises Refused for codes in unknown counties, or for too many in unknown tracts.
    """
    _, known = find_blocks(universe, file.code)
    other = file.code[~known]
    strange = other[~np.isin(other // COUNTY_UNIT, np.unique(universe // COUNTY_UNIT))]
    if len(strange):
        raise _no_blocks(strange, "county", len(file.code))
    tract = other // TRACT_UNIT
    usual = (tract % 10**6 // 100 < EMPTY_TRACTS[0]) | (tract % 10**6 // 100 > EMPTY_TRACTS[1])
    strange = other[usual & ~np.isin(tract, np.unique(universe // TRACT_UNIT))]
    if len(strange) > FOREIGN * len(file.code):
        raise _no_blocks(strange, "tract", len(file.code))
    notes = []
    if len(other):
        notes.append(
            f"blocks without homes or group quarters (water, roads, parks), 0 persons: {len(other):,} "
            f"({_shown(other)}); look at them only if codes were typed by hand"
        )
    if len(strange):
        notes.append(
            f"of these in tracts that have no such block: {len(strange):,} ({_shown(strange)}); the release has "
            "blocks of 2020"
        )
    return notes


def _no_blocks(strange: IntArray, where: str, all_codes: int) -> Refused:
    return Refused(
        f"{len(strange):,} of {all_codes:,} codes are in no {where} of the measurements ({_shown(strange)}): each must "
        "be the 15 digits of a block of 2020, state 2, county 3, tract 6 and block 4"
    )


def _shown(codes: IntArray) -> str:
    return shown_examples([f"{code:015d}" for code in codes[:4].tolist()])


def check_states(file: AreaFile, there: Sequence[str]) -> tuple[str, ...]:
    """Return the states of a file's blocks, two digits. Raises Refused for a state that was not measured."""
    states = [f"{state:02d}" for state in np.unique(file.code // STATE_UNIT).tolist()]
    if missing := [state for state in states if state not in there]:
        number = int((file.code // STATE_UNIT == int(missing[0])).sum())
        shown = ", ".join(there[:8]) + ", …" * (len(there) > 8)
        raise Refused(f"{number:,} blocks are in state {missing[0]}, and the measurements are of {shown} only")
    return tuple(states)
