"""The declared domain of a bottom-up run: factors and levels, structural zeros, weights; and the published totals.

A domain is a JSON document:

```
{"factors": {"COUNTY": ["44001", "44003"], "SEX": ["1", "2"], "GQ": ["101", "201"]},
 "states": ["44"],
 "groups": {"STATE": {"of": "COUNTY", "first": 2}},
 "structural_zeros": [{"SEX": "1", "GQ": "201"}],
 "weight": {"column": "WT", "most": 25, "grid": 0.5},
 "delimiter": ","}
```

A factor is a column of the table, or has its column in `read_from`. `states` are charged in the ledger: two-digit FIPS
codes of all the states that the table covers. A factor or group named STATE has no other levels, and so has one whose
levels look like codes of places, by the states they begin with; `not_places` lists factors that only look so, as AGE
with levels 01 and 02. Without `states` a run is charged everywhere, and levels may be any codes: of another country, or
of no place. `records` names what a record is, by default a person, in all that is said of the spend, and `unit` whether
its accounts are of persons or of households. All but `factors` may be left out. A group is the leading characters of a
factor's levels, or the code that `codes` gives to each. Everything here is public.

A declaration of the TopDown Algorithm is a domain, too (declared_domain.py): one file for a table of one's own.

Names and levels with which no release could be written are refused here, before anything is spent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from itertools import repeat
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from privacy.accounting.composition import UNITS_OF_PRIVACY, UnitOfPrivacy
from privacy.accounting.states import EVERYWHERE, check_states, states_of
from privacy.bottom_up.mechanism import BottomUp
from privacy.noise.exact import exact, exact_number
from privacy.tables.histogram import Axis, Histogram
from spine.fault_words import first_fault
from tasks.bottom_up.declared_domain import domain_of
from tasks.errors import Refused
from tasks.geography.region_files import DIGITS, is_region
from tasks.geography.regions import Region
from tasks.records.declarations import read_raw
from tasks.records.files import refuse_unreadable
from tasks.records.public_table import open_table
from tasks.releases.datapackage import slug
from tasks.releases.received import LARGEST_READ

NAME = r"[^\W\d_]\w{0,63}"
TAKEN = ("count", "moe", "total", "case")  # columns of a release, of published totals and of the list of cases
LONGEST_MARGINAL = 200  # characters of its names: they name a file
MOST_STEPS = 1 << 31  # of a record: counts of 2^32 such records fit int64
LARGEST_TOTAL = 1 << 53  # steps
LARGEST_DOMAIN = 12 << 20  # characters: a manifest has 32 MiB at most, with the totals
MOST_CELLS = 1 << 31


def _exact(value: object) -> Fraction:
    return exact(value, "it")


class Weight(BaseModel):
    """Weighted records: no weight is above `most`; weights are counted in steps of `grid`."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    column: str
    most: Annotated[Fraction, BeforeValidator(_exact), Field(gt=0)]
    grid: Annotated[Fraction, BeforeValidator(_exact), Field(gt=0)] = Fraction(1)


class Group(BaseModel):
    """A coarser factor: the first characters of another's levels, as the state of a county's code, or `codes`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: str
    first: int | None = Field(default=None, ge=1)
    codes: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_way(self) -> Group:
        if (self.first is None) != bool(self.codes):
            raise ValueError("it has either first or codes")
        return self

    def code(self, level: str) -> str:
        """Return the coarser level of a level of the factor. Raises ValueError where it has none."""
        if self.first is not None:
            return level[: self.first]
        if level not in self.codes:
            raise ValueError(f"the level {level!r} of {self.of} has no code in a group")
        return self.codes[level]


class Domain(BaseModel):
    """A declared domain."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    factors: dict[str, tuple[str, ...]]
    records: str = Field(default="person", pattern=r"^[a-z][a-z -]{0,39}$")
    unit: UnitOfPrivacy = "person"
    read_from: dict[str, str] = {}
    states: tuple[str, ...] = Field(default=(), min_length=1)
    groups: dict[str, Group] = {}
    structural_zeros: tuple[dict[str, str], ...] = ()
    weight: Weight | None = None
    delimiter: Literal[",", "|", ";", "\t"] = ","
    not_places: tuple[str, ...] = ()

    @cached_property
    def histogram(self) -> Histogram:
        """The full cross of the factors."""
        axes = tuple(Axis(name, name, levels, self.column(name), levels) for name, levels in self.factors.items())
        histogram = Histogram(axes)
        if histogram.cells > MOST_CELLS:
            raise ValueError(f"the histogram has {histogram.cells:,} cells, more than {MOST_CELLS:,}")
        zeros = []
        for zero in self.structural_zeros:
            for name, level in zero.items():
                if level not in histogram.axis(name).coordinates:
                    raise ValueError(f"structural zero: {name} has no level {level!r}")
            zeros.append({name: frozenset({histogram.axis(name).coordinates[level]}) for name, level in zero.items()})
        return replace(histogram, zeros=tuple(zeros))

    @property
    def charged(self) -> tuple[str, ...]:
        """The states that a run charges in its account: those declared, else every one."""
        return self.states or EVERYWHERE

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the table must have; it may have more."""
        return (*map(self.column, self.factors), *((self.weight.column,) if self.weight else ()))

    def column(self, factor: str) -> str:
        """Return the column of the table that a factor is read from."""
        return self.read_from.get(factor, factor)

    @property
    def grid(self) -> Fraction:
        """The unit of one step of a count."""
        return self.weight.grid if self.weight else Fraction(1)

    def mechanism(self, epsilon: Fraction) -> BottomUp:
        """Return the mechanism at a budget, with the sensitivity that the weights give it."""
        most, grid = (self.weight.most, self.weight.grid) if self.weight else (Fraction(1), Fraction(1))
        return BottomUp(epsilon, most, grid, self.records, self.unit)

    def digest(self) -> str:
        """SHA-256 of the declaration."""
        return sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    def factor_of(self, name: str) -> str:
        """Return the factor of a name: itself, or the one that it is a coarser form of."""
        return self.groups[name].of if name in self.groups else name

    def regions(self) -> frozenset[Region]:
        """Return the regions among the levels of a factor or group named as their type, STATE, COUNTY and so on.

        None where no states are declared: codes may be those of another country.
        """
        named = [(name.upper(), self.grouping((name,)).levels[0]) for name in self.region_columns]
        return frozenset(Region.named(kind, code) for kind, codes in named for code in codes if is_region(kind, code))

    @property
    def region_columns(self) -> list[str]:
        """The factors and groups whose levels are codes of regions."""
        names = [name for name in (*self.factors, *self.groups) if self.states and name not in self.not_places]
        return [name for name in names if name.upper() in DIGITS]

    def grouping(self, names: Sequence[str], histogram: Histogram | None = None) -> Grouping:
        """Return the groups of cells by some factors or coarser factors. Raises ValueError for any other name.

        `histogram` is that of the domain, or one of its marginals with all the factors needed.
        """
        histogram = histogram or self.histogram
        levels, numbers = [], []
        for name in names:
            if name not in self.factors and name not in self.groups:
                choices = ", ".join((*self.factors, *self.groups))
                raise ValueError(f"there is no factor or group {name!r}: choose from {choices}")
            group = self.groups.get(name)
            axis = histogram.axis(self.factor_of(name))
            texts = [group.code(level) if group else level for level in axis.codes]
            known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
            levels.append(tuple(known))
            numbers.append((axis.name, np.array([known[text] for text in texts], np.int64)))
        sizes = {axis.name: len(axis) for axis in histogram.axes}
        return Grouping(tuple(names), tuple(levels), tuple(numbers), sizes)

    def spelled(self, name: str) -> str:
        """Return the factor or group of a name in any case, as a table may spell it; the name where there is none."""
        return next((own for own in (*self.factors, *self.groups) if own.casefold() == name.casefold()), name)

    def marginal(self, counts: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.int64]:
        """Return sums of all cells' counts by factors or coarser factors, in the order of `grouping(names)`."""
        factors = {self.factor_of(name) for name in names}
        marginal = self.histogram.marginal(counts, factors)
        if not factors:
            return marginal
        within = Histogram(tuple(axis for axis in self.histogram.axes if axis.name in factors))
        grouping = self.grouping(names, within)
        sums = np.zeros(grouping.groups, np.int64)
        np.add.at(sums, grouping.of(np.arange(within.cells)), marginal)
        return sums


@dataclass(frozen=True)
class Grouping:
    """Groups of cells by factors or coarser factors; a group's number is that of its levels in row-major order."""

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    _numbers: tuple[tuple[str, NDArray[np.int64]], ...]
    _sizes: dict[str, int]  # of the histogram's axes, by name

    @property
    def groups(self) -> int:
        """The number of groups."""
        return prod(map(len, self.levels))

    def of(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group of each cell, all zero where there are no names."""
        at = np.unravel_index(cells, tuple(self._sizes.values()))
        axes = dict(zip(self._sizes, at, strict=True))
        group = np.zeros(len(cells), np.int64)
        for levels, (factor, to_group) in zip(self.levels, self._numbers, strict=True):
            group = group * len(levels) + to_group[axes[factor]]
        return group

    def number(self, levels: Sequence[str]) -> int:
        """Return the number of the group with these levels. Raises ValueError for an unknown level."""
        number = 0
        for name, known, level in zip(self.names, self.levels, levels, strict=True):
            if level not in known:
                raise ValueError(f"{name} has no level {level!r}")
            number = number * len(known) + known.index(level)
        return number

    def label(self, number: int) -> dict[str, str]:
        """Return the levels of a group, by name."""
        places = np.unravel_index(number, tuple(map(len, self.levels)))
        return {name: levels[place] for name, levels, place in zip(self.names, self.levels, places, strict=True)}


def is_domain(path: Path) -> bool:
    """Return whether a file is a domain or a declaration; a large one is neither, and is not read."""
    try:
        return path.stat().st_size <= LARGEST_READ and bool({"factors", "axes"} & read_raw(str(path)).keys())
    except (Refused, OSError):
        return False  # whoever reads it says why


def read_domain(path: Path) -> Domain:
    """Read a declared domain. Raises Refused with the first fault, in one line."""
    try:
        raw = read_raw(str(path))
        return checked_domain(domain_of(str(path), raw) if "axes" in raw else raw)
    except ValidationError as error:
        raise Refused(f"{path}: {first_fault(error)}") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: {error}") from None


def checked_domain(raw: Any) -> Domain:
    """Return a domain from plain values. Raises ValidationError, or ValueError with the first fault."""
    domain = Domain.model_validate(raw)
    histogram = domain.histogram
    for name, group in domain.groups.items():
        histogram.axis(group.of)
        if name in domain.factors:
            raise ValueError(f"{name!r} is a factor and a group")
        domain.grouping((name,))
    _check_writable(domain)
    if domain.records in UNITS_OF_PRIVACY and domain.records != domain.unit:
        raise ValueError(f'unit: a record is a {domain.records}: say unit = "{domain.records}"')
    check_states(domain.states)
    _check_covered(domain)
    _check_weight(domain.weight)
    return domain


def _check_writable(domain: Domain) -> None:
    """Refuse names that a release's tables and files could not have, or not apart, and levels that no text can hold.

    The manifest has the domain, so a domain is refused that would make it larger than a manifest may be.
    """
    names = (*domain.factors, *domain.groups)
    if wrong := [name for name in names if not re.fullmatch(NAME, name) or not slug(name)]:
        raise ValueError(
            f"{wrong[0][:40]!r} is not a valid name for a factor: use up to 64 letters, of them one of a to z, digits "
            "and _, a letter first"
        )
    folded = [slug(name) for name in names]  # as the tables of a release are named
    if taken := [name for name in names if name.casefold() in TAKEN or folded.count(slug(name)) > 1]:
        raise ValueError(
            f"{taken[0]!r} cannot be a factor or group: names are distinct, also in small letters and without accents, "
            f"and none is {', '.join(TAKEN)}"
        )
    for name, levels in domain.factors.items():
        for level in levels:
            if not level.isprintable() or set(level) & set('|"'):
                raise ValueError(f'{name}: the level {level[:40]!a} has characters that no release can hold, as | or "')
    if (size := len(domain.model_dump_json())) > LARGEST_DOMAIN:
        raise ValueError(f"its factors have {size:,} characters, more than the {LARGEST_DOMAIN:,} of a manifest")


def check_marginals(domain: Domain, marginals: Sequence[Sequence[str]]) -> None:
    """Refuse marginals that the domain does not have, that appear twice, or whose file would have too long a name.

    Raises ValueError with the marginal and its fault.
    """
    for marginal in marginals:
        domain.grouping(marginal)
        if len(set(marginal)) < len(marginal) or marginals.count(marginal) > 1:
            raise ValueError(f"marginal {','.join(marginal)} appears twice, or a name in it")
        if len(",".join(marginal)) > LONGEST_MARGINAL:
            raise ValueError(f"marginal {','.join(marginal)[:40]}… is longer than {LONGEST_MARGINAL} characters")


def _check_covered(domain: Domain) -> None:
    """Refuse a domain with states that would not be charged."""
    if unknown := sorted(set(domain.not_places) - {*domain.factors, *domain.groups}):
        raise ValueError(f"not_places: unknown factor {unknown[0]!r}")
    if not domain.states:
        return  # charged everywhere
    for name in sorted((*domain.factors, *domain.groups), key=lambda name: name.upper() != "STATE"):
        (levels,) = domain.grouping((name,)).levels
        if name.upper() == "STATE":
            if uncharged := sorted(set(levels) - set(domain.states)):
                raise ValueError(
                    f"{name} has levels that are not in states, the FIPS codes charged: {', '.join(uncharged)}"
                )
        elif name not in domain.not_places and (uncharged := sorted(states_of(levels) - set(domain.states))):
            raise ValueError(
                f"the levels of {name} look like places in states that are not charged: {', '.join(uncharged)}; "
                f"add them to states, or {name} to not_places"
            )


def _check_weight(weight: Weight | None) -> None:
    """Refuse weights whose sums could pass the numbers that counts are held in."""
    if weight and weight.grid > weight.most:
        raise ValueError("weight: grid is above most")
    if weight and max(weight.most, weight.most / weight.grid) > MOST_STEPS:
        raise ValueError(f"weight: most is above {MOST_STEPS:,}, as such or in steps of grid")


@dataclass(frozen=True)
class Totals:
    """Published totals, in steps, of groups of cells; groups that are not in it are unpublished."""

    grouping: Grouping
    published: dict[int, int]


def read_totals(path: Path, domain: Domain) -> Totals:
    """Read published totals: columns named as factors or groups, and TOTAL; an empty TOTAL is unpublished.

    Raises Refused with the first fault: an unknown column or level, a group twice, a total that is no number >= 0 or no
    multiple of the weights' grid.
    """
    with refuse_unreadable(path):
        file = open_table(str(path), delimiter=domain.delimiter)
        rows = file.read()
    try:
        total = file.columns(["TOTAL"])["TOTAL"]
        names = [name for name in rows.table.column_names if name != total]
        grouping = domain.grouping([domain.spelled(name) for name in names])
        published = {}
        levels = zip(*(rows.table[name].to_pylist() for name in names), strict=True) if names else repeat(())
        for line, group, text in zip(rows.lines.tolist(), levels, rows.table[total].to_pylist(), strict=bool(names)):
            number = grouping.number(group)
            if number in published:
                raise ValueError(f"line {line} repeats a group")
            if text.strip():
                published[number] = _steps(text, domain.grid, line)
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None
    return Totals(grouping, published)


def _steps(text: str, grid: Fraction, line: int) -> int:
    try:
        steps = exact_number(text.strip()) / grid
    except ValueError as error:
        raise ValueError(f"line {line}: {text[:20]!r} {error}") from None
    if steps < 0 or steps.denominator != 1:
        raise ValueError(f"line {line}: a total is not negative and a multiple of the grid, {grid}; not {text}")
    if steps > LARGEST_TOTAL:
        raise ValueError(f"line {line}: a total is at most {LARGEST_TOTAL:,} steps of the grid")
    return int(steps)
