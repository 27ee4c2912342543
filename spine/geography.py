"""The blocks of a run with their public attributes: the input of every spine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]

NO_PLACE = NO_COUSUB = 99999
NO_AIANNH = 9999
NO_SCHOOL_DISTRICT = 999999999999999
PUERTO_RICO = 72

# lower, upper, name: the classes of AIANNHCE (AIANNHCE_ranges.csv of the production programs).
AIAN_CLASSES: tuple[tuple[int, int, str], ...] = (
    (1, 4799, "legal federally recognized"),
    (4800, 4989, "joint use"),
    (5000, 5499, "Hawaiian home land"),
    (5500, 5899, "OTSA"),
    (5900, 5999, "joint-use OTSA"),
    (6000, 7999, "ANVSA"),
    (8000, 8999, "TDSA"),
    (9000, 9499, "state-recognized legal"),
    (9500, 9998, "SDTSA"),
)


def narrowed(numbers: Integers) -> Integers:
    """Return whole numbers, none negative, in the narrowest type that holds them all."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))), copy=False)


class BadGeography(ValueError):
    """The geography contradicts itself; the message names the first such block."""


@dataclass(frozen=True)
class Geography:
    """Blocks sorted by geocode, one entry of every array per block. Missing optional columns are None.

    geocode: 16 digits as an integer: state 2, county 3, tract 6, block group 1, block 4 (docs/spec/spine.md#geocodes).
    cousub, place: 5-digit codes; 99999 means none. aiannh: 4-digit code; 9999 means none.
    school_district: SDUNILEA, SDSECLEA and SDELMLEA as one 15-digit integer; all nines means none.
    gq: presence of the seven major group-quarters types 1xx..7xx-9xx: seven binary digits, the first type leftmost.
    prim: the Estimates and Projections primitive, 15 digits: state 2, county 3, county subdivision 5, place 5.
    universe: whether the block has a housing unit or group quarters. population: persons, for the reports only.
    """

    geocode: IntArray
    place: npt.NDArray[np.int32]
    cousub: npt.NDArray[np.int32]
    aiannh: npt.NDArray[np.int16]
    school_district: IntArray | None = None
    gq: npt.NDArray[np.uint8] | None = None
    prim: IntArray | None = None
    universe: BoolArray | None = None
    population: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.geocode)

    @property
    def state(self) -> IntArray:
        """State FIPS code of each block."""
        return self.geocode // 10**14

    @property
    def county(self) -> IntArray:
        """State and county, 5 digits."""
        return self.geocode // 10**11

    @property
    def tract(self) -> IntArray:
        """State, county and tract, 11 digits."""
        return self.geocode // 10**5

    @property
    def block_group(self) -> IntArray:
        """State, county, tract and tabulation block group, 12 digits."""
        return self.geocode // 10**4

    def take(self, rows: IntArray | BoolArray) -> Geography:
        """Return the blocks at `rows` (positions or a mask), in that order."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: c[rows] for name, c in columns.items() if c is not None})


def geocode16(state: IntArray, county: IntArray, tract: IntArray, block: IntArray) -> IntArray:
    """Return the 16-digit geocode; its block-group digit is the first digit of the block."""
    return (((state * 1000 + county) * 10**6 + tract) * 10 + block // 1000) * 10**4 + block


def gq_pattern(present: Sequence[BoolArray]) -> npt.NDArray[np.uint8]:
    """Return the `gq` column, given whether each block has each of the seven major types."""
    return np.packbits(np.column_stack(present), axis=1)[:, 0] >> np.uint8(1)


def geoid15(geocode: int) -> str:
    """Return a block's usual code: the 15 digits of state, county, tract and block."""
    digits = f"{geocode:016d}"
    return digits[:11] + digits[12:]


def checked(geography: Geography) -> Geography:
    """Return the geography sorted by geocode. Raises BadGeography for a duplicate block or an unknown AIANNH code."""
    if not len(geography):
        raise BadGeography("the geography has no blocks")
    if (geography.geocode[1:] <= geography.geocode[:-1]).any():
        geography = geography.take(np.argsort(geography.geocode, kind="stable"))
    twice = np.flatnonzero(geography.geocode[1:] == geography.geocode[:-1])
    if len(twice):
        raise BadGeography(f"block {geoid15(int(geography.geocode[twice[0]]))} comes twice")
    known = np.zeros(10000, bool)
    known[NO_AIANNH] = True
    for lower, upper, _ in AIAN_CLASSES:
        known[lower : upper + 1] = True
    code = geography.aiannh.astype(np.int64)
    unknown = np.flatnonzero((code < 0) | (code > 9999) | ~known[np.clip(code, 0, 9999)])
    if len(unknown):
        where = unknown[0]
        raise BadGeography(
            f"block {geoid15(int(geography.geocode[where]))} has the unknown AIANNH code {code[where]:04d}"
        )
    return geography


def concatenate(parts: list[Geography]) -> Geography:
    """Return several files' blocks as one geography. Raises BadGeography if a state is in more than one file."""
    seen: set[int] = set()
    for part in parts:
        states, first = np.unique(part.state, return_index=True)
        for state, row in zip(states.tolist(), first.tolist(), strict=True):
            if state in seen:
                raise BadGeography(f"state {state:02d} comes twice: block {geoid15(int(part.geocode[row]))} again")
            seen.add(state)
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {}
    for f in fields(Geography):
        given = [getattr(part, f.name) for part in parts]
        columns[f.name] = None if any(c is None for c in given) else np.concatenate(given)
    return Geography(**columns)
