"""The histogram of a declaration (docs/declarations.md): its leaves x its axes. Levels and recodes are coarser axes.

Budget, queries, declared counts and passes of a declaration apply to das tda only. Everything here is public. Names and
codes that a release could not have are refused here, before any budget is spent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from privacy.accounting.states import EVERYWHERE, check_states, states_of
from privacy.bottom_up.mechanism import BottomUp
from privacy.tables.histogram import Axis, Histogram, Recode
from spine.declaration.form import Fault, Form, TableForm, Weight, code_faults, read_form, record_faults
from spine.declaration.product import coordinates, read_histogram
from tasks.errors import Refused
from tasks.geography.region_files import DIGITS, is_region
from tasks.geography.regions import Region
from tasks.records.declarations import beside, read_columns, read_raw
from tasks.releases.datapackage import slug
from tasks.releases.received import LARGEST_READ

NAME = r"[^\W\d_]\w{0,63}"
TAKEN = (
    "count",
    "moe",
    "total",
    "case",
    "table",
    "unit",
    "margin",
)  # columns of a release, of published totals and of the list of cases
LONGEST_MARGINAL = 200  # characters of its names, which name a file
MOST_STEPS = 1 << 31  # most steps of a record's weight: counts of 2^32 such records fit int64
LARGEST_DECLARATION = 12 << 20  # characters, with its leaves: a manifest has 32 MiB at most, with the totals
MOST_CELLS = 1 << 31
T = TypeVar("T")


@dataclass(frozen=True)
class DeclaredHistogram:
    """A declaration's histogram.

    declaration: the keys that das bottom-up reads, as JSON. leaves: the columns of the table of leaves.
    """

    declaration: Mapping[str, Any]
    leaves: Mapping[str, tuple[str, ...]]

    @cached_property
    def form(self) -> TableForm:
        """The declaration."""
        return _sound(*read_form(self.declaration, TableForm))

    @cached_property
    def histogram(self) -> Histogram:
        """The full cross of leaves and axes, leaves first, with levels and recodes. Raises ValueError."""
        form = self.form
        histogram = _sound(*read_histogram(form, MOST_CELLS))
        if form.leaves:
            key = form.leaves.key[0]
            leaf = Axis(key, key, self.leaves[key], form.record_key[0], self.leaves[key])
            axes, recodes = (leaf, *histogram.axes), (*self._levels(key), *histogram.recodes)
            histogram = replace(histogram, axes=axes, recodes=recodes)
        if histogram.cells > MOST_CELLS:
            raise ValueError(f"the histogram has {histogram.cells:,} cells, more than {MOST_CELLS:,}")
        return histogram

    def _levels(self, key: str) -> list[Recode]:
        """Return each column of a level above the leaves, as groups of the axis of leaves.

        If equal codes under different parents name different geounits, the code is prefixed by those above it: `2/01`.
        """
        above: list[str] = []
        recodes = []
        for name in (name for level in self.form.levels[:-1] for name in level.columns):
            above.append(name)
            paths = ["/".join(codes) for codes in zip(*(self.leaves[each] for each in above), strict=True)]
            texts = self.leaves[name] if len(set(self.leaves[name])) == len(set(paths)) else paths
            number = {text: part for part, text in enumerate(dict.fromkeys(texts))}
            recodes.append(Recode(name, key, tuple(number[text] for text in texts), tuple(number)))
        return recodes

    @property
    def names(self) -> tuple[str, ...]:
        """The axes, levels and recodes by which counts can be summed."""
        return (*self.histogram.names, *(recode.name for recode in self.histogram.recodes))

    @cached_property
    def coordinates(self) -> dict[str, dict[str, int]]:
        """By axis, the coordinate of each value of its column."""
        own = {name: coordinates(axis) for name, axis in self.form.axes.items()}
        return {axis.name: own.get(axis.name, axis.coordinates) for axis in self.histogram.axes}

    @property
    def charged(self) -> tuple[str, ...]:
        """The states that a run charges in its account: the declared ones, or every state."""
        return self.form.states or EVERYWHERE

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the table must have; it may have others."""
        weight = self.form.weight
        return (*(axis.column for axis in self.histogram.axes), *((weight.column,) if weight else ()))

    @property
    def grid(self) -> Fraction:
        """The unit of one step of a count."""
        return self.form.weight.grid if self.form.weight else Fraction(1)

    def mechanism(self, epsilon: Fraction) -> BottomUp:
        """Return the mechanism at a budget, with the sensitivity that follows from the weights."""
        form = self.form
        unit = form.unit or ("household" if form.records == "household" else "person")
        return BottomUp(epsilon, form.weight.most if form.weight else Fraction(1), self.grid, form.records, unit)

    def digest(self) -> str:
        """SHA-256 of the declaration and its leaves."""
        return sha256(json.dumps([self.declaration, self.leaves], sort_keys=True).encode()).hexdigest()

    def regions(self) -> frozenset[Region]:
        """Return the regions among the codes of an axis, level or recode that is named as their type, such as STATE or
        COUNTY.

        Empty if no states are declared: codes may be another country's.
        """
        named = [(name.upper(), self.codes(name)) for name in self.region_columns]
        return frozenset(Region.named(kind, code) for kind, codes in named for code in codes if is_region(kind, code))

    @property
    def region_columns(self) -> list[str]:
        """The names whose codes are region codes."""
        names = [name for name in self.names if self.form.states and name not in self.form.not_places]
        return [name for name in names if name.upper() in DIGITS]

    def codes(self, name: str) -> tuple[str, ...]:
        """Return the codes of an axis, level or recode."""
        return self.histogram.groups((name,)).codes[0]

    def spelled(self, name: str) -> str:
        """Return a name, in any case, as it is declared; unchanged if it is not declared."""
        return next((own for own in self.names if own.casefold() == name.casefold()), name)


def is_declaration(path: Path) -> bool:
    """Return whether a file is a declaration. Large files are not read."""
    try:
        return path.stat().st_size <= LARGEST_READ and "axes" in read_raw(str(path))
    except (Refused, OSError):
        return False  # its reader says why


def read_declared_histogram(path: Path) -> DeclaredHistogram:
    """Read a declaration and its table of leaves. Raises Refused with the first fault, in one line."""
    try:
        raw = read_raw(str(path))
        of_tda = Form.model_fields.keys() - TableForm.model_fields.keys()
        form = _sound(*read_form({key: raw[key] for key in raw if key not in of_tda}, TableForm))
        leaves = _read_leaves(str(path), form)
        declaration = form.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        if form.leaves:
            declaration["leaves"]["file"] = Path(form.leaves.file).name  # releases name files without their folders
        return checked_histogram(declaration, leaves)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: {error}") from None


def _sound(value: T | None, faults: Iterable[Fault]) -> T:
    """Return a value without faults. Raises ValueError with the first fault."""
    if (fault := next(iter(faults), None)) is not None or value is None:
        raise ValueError(": ".join(filter(None, fault or ())))
    return value


def _read_leaves(path: str, form: TableForm) -> dict[str, tuple[str, ...]]:
    """Return the columns of the table of leaves that name leaves and levels; empty without leaves."""
    if form.leaves is None:
        return {}
    if len(form.leaves.key) > 1:
        raise ValueError(
            f"leaves.key: das bottom-up reads the leaf from one column, not from {', '.join(form.leaves.key)}"
        )
    if any(level.names for level in form.levels):
        raise ValueError("levels.names: das bottom-up has names from names.csv next to the declaration")
    columns = dict.fromkeys([*form.leaves.key, *(name for level in form.levels[:-1] for name in level.columns)])
    leaves, findings = read_columns(beside(path, form.leaves.file), [*columns], form.delimiter)
    if leaves is None:
        raise ValueError(f"leaves.file: {findings[0].rule}")
    return leaves


def checked_histogram(declaration: Mapping[str, Any], leaves: Mapping[str, Sequence[str]]) -> DeclaredHistogram:
    """Return the histogram of a declaration and its leaves. Raises ValueError with the first fault."""
    declared = DeclaredHistogram(declaration, {name: tuple(codes) for name, codes in leaves.items()})
    form = _sound(declared.form, [*record_faults(declared.form), *code_faults(declared.leaves)])
    _check_names(declared)
    check_states(form.states)
    _check_covered(declared)
    _check_weight(form.weight)
    return declared


def _check_names(declared: DeclaredHistogram) -> None:
    """Refuse names that a release's tables and files cannot have or cannot distinguish.

    The manifest includes the declaration, so the declaration is limited in size.
    """
    names = declared.names
    if wrong := [name for name in names if not re.fullmatch(NAME, name) or not slug(name)]:
        raise ValueError(
            f"{wrong[0][:40]!r} is not a valid name: use up to 64 letters, of them one of a to z, digits and _, a "
            "letter first"
        )
    folded = [slug(name) for name in names]  # as the tables of a release are named
    if taken := [name for name in names if name.casefold() in TAKEN or folded.count(slug(name)) > 1]:
        raise ValueError(
            f"{taken[0]!r} cannot be an axis, level or recode: names are distinct, also in small letters and without "
            f"accents, and none is {', '.join(TAKEN)}"
        )
    if (size := len(json.dumps([declared.declaration, declared.leaves]))) > LARGEST_DECLARATION:
        raise ValueError(f"it has {size:,} characters, more than the {LARGEST_DECLARATION:,} of a manifest")


def check_marginals(declared: DeclaredHistogram, marginals: Sequence[Sequence[str]]) -> None:
    """Refuse marginals that are not declared or appear twice, or whose file name would be too long.

    Raises ValueError with the marginal and its fault.
    """
    for marginal in marginals:
        declared.histogram.groups(marginal)
        if len(set(marginal)) < len(marginal) or marginals.count(marginal) > 1:
            raise ValueError(f"marginal {','.join(marginal)} appears twice, or a name in it")
        if len(",".join(marginal)) > LONGEST_MARGINAL:
            raise ValueError(f"marginal {','.join(marginal)[:40]}… is longer than {LONGEST_MARGINAL} characters")


def _check_covered(declared: DeclaredHistogram) -> None:
    """Refuse a declaration with states that would not be charged."""
    form = declared.form
    if unknown := sorted(set(form.not_places) - {*declared.names}):
        raise ValueError(f"not_places: {unknown[0]!r} is not an axis, level or recode")
    if not form.states:
        return  # charged everywhere
    for name in sorted(declared.names, key=lambda name: name.upper() != "STATE"):
        codes = declared.coordinates.get(name) or declared.codes(name)  # a cell's codes are all its values
        if name.upper() == "STATE":
            if uncharged := sorted(set(codes) - set(form.states)):
                raise ValueError(
                    f"{name} has values that are not in states, the FIPS codes charged: {', '.join(uncharged)}"
                )
        elif name not in form.not_places and (uncharged := sorted(states_of(codes) - set(form.states))):
            raise ValueError(
                f"the values of {name} look like places in states that are not charged: {', '.join(uncharged)}; "
                f"add them to states, or {name} to not_places"
            )


def _check_weight(weight: Weight | None) -> None:
    """Refuse weights whose sums could overflow the integers of counts."""
    if weight and weight.grid > weight.most:
        raise ValueError("weight: grid is above most")
    if weight and max(weight.most, weight.most / weight.grid) > MOST_STEPS:
        raise ValueError(f"weight: most is above {MOST_STEPS:,}, as such or in steps of grid")
