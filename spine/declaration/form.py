"""The form of a declaration: what its file says, in the file's own keys. Unknown keys are refused.

Everything here is public. Shares and budgets are exact: whole numbers, or text as "1/10" and "0.1". A figure of the
records has no key: what is declared comes from files that their owner calls public.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from privacy.noise.exact import exact_number
from spine.fault_words import fault_words
from spine.settings import Definition

RANGE = re.compile("([0-9]{1,9})-([0-9]{1,9})")
NUMBER = re.compile("[+-]?[0-9.]+(-[0-9.]+)?")  # or a range: a code of a cell
MOST_VALUES = 1 << 20  # of an axis
TYPE = re.compile(r"str|constrained-\w+|.*[\[(].*")  # of a value in the place of a fault, which is no key of the file


NAME, SMALL, RECORDS = r"^[A-Za-z][A-Za-z0-9_]{0,63}$", r"^[a-z0-9][a-z0-9-]{0,39}$", r"^[a-z][a-z -]{0,39}$"
PATTERNS = {  # in words
    NAME: "letters a to z, digits and _, a letter first, 64 at most",
    SMALL: "small letters a to z, digits and dashes, 40 at most",
    RECORDS: "small letters a to z, spaces and dashes, 40 at most",
}


class Fault(NamedTuple):
    """What is wrong with a declaration: the key of its file, such as `axes.sex.values`, and a sentence."""

    key: str
    text: str


def _exact(value: object) -> Fraction:
    if isinstance(value, str | int) and not isinstance(value, bool):
        with suppress(ValueError):
            return exact_number(str(value))
    raise ValueError(f'{str(value)[:40]!r} is no exact number: write a whole number, or text such as "1/10" or "0.1"')


def _bare(partition: str) -> str:
    """Return a partition without the blanks around its names, so that one partition has one name."""
    return "*".join(name.strip() for name in partition.split("*"))


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Exact = Annotated[Fraction, BeforeValidator(_exact)]
Name = Annotated[str, StringConstraints(pattern=NAME)]
Factor = Annotated[int, Field(ge=0, le=1 << 20)]  # records for each counted: products with counts are exact
Partition = Annotated[str, AfterValidator(_bare)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Values = Annotated[tuple[str | tuple[str, ...], ...], BeforeValidator(_listed)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Leaves(_Part):
    """The table of leaves: one row a leaf, every leaf that may hold a record. key: its columns that name a leaf."""

    file: str
    key: Texts = Field(min_length=1)


class Made(_Part):
    """A level that is made rather than read: runs of leaves, of bounded size, that agree in the columns `apart`.

    within: the level above it. cap: children of a group, floor(sqrt(n)) + 13 in a geounit of n leaves, as the
    production programs have it.
    """

    within: str
    apart: Texts = ()
    cap: Literal["sqrt+12"] = "sqrt+12"


class Level(_Part):
    """A level: a geounit is the leaves that agree in `columns` and in those of the levels above."""

    name: Name
    columns: Texts = ()
    share: Exact | None = None
    made: Made | None = None


class RecordsFile(_Part):
    """The columns of a record that name its leaf, one for each of the leaves' key; by default they have its names."""

    key: Texts


class AxisForm(_Part):
    """An axis: the column of records that it is read from, and the values of its cells.

    A text of `values` is one value, or a range `0-115` of one cell a value; a list in it is one cell of all its values.
    """

    column: str
    values: Values
    labels: Texts = ()
    words: str = ""


class RecodeForm(_Part):
    """Groups of an axis's cells: by their values, by a width, or by the first value of each."""

    axis: str
    parts: Values | None = Field(default=None, alias="from")
    width: int | None = Field(default=None, ge=2)
    starts: tuple[int, ...] | None = None
    labels: Texts = ()


class Zero(_Part):
    """Cells that no record can be in: those that meet all conditions, by axis or recode; `not:` negates one."""

    where: dict[str, Texts] = Field(min_length=1)


class TotalForm(_Part):
    """Declared totals of the geounits of a level, or of groups of leaves that agree in columns."""

    of: Texts = Field(min_length=1)
    file: str


class CountForm(_Part):
    """Declared counts of the parts of a partition, by leaf: no record is where the count is 0.

    columns: of the leaves, in the partition's order; "" where nothing is declared of a part. least, most: records for
    each counted, by default 0 and no limit.
    """

    partition: Partition
    columns: Texts
    least: tuple[Factor, ...] = ()
    most: tuple[Factor | Literal[""], ...] = ()

    @property
    def is_total(self) -> bool:
        """Return whether the counts are of whole leaves, one record each: totals."""
        return self.partition == "total" and self.least == self.most == (1,)


class EqualForm(_Part):
    """Equality of a partition's counts in every leaf with those of a published release, a folder.

    table: its name in the release's description, where several tables have such counts. The estimates have these
    counts, whatever the records have: the release is public, and read instead of them.
    """

    partition: Partition
    release: str
    table: str = ""


class ThenForm(_Part):
    """The passes after a rounding: what the chain before rounded is kept exactly; `round` refines it."""

    least_squares: tuple[Texts, ...] = (("rest",),)
    round: Annotated[tuple[Partition, ...], BeforeValidator(_listed)] = ()


class PassForm(_Part):
    """The passes of some levels, the chain of sums that rounding keeps close to, and the weight of the cells."""

    levels: Texts = Field(min_length=1)
    least_squares: tuple[Texts, ...] = (("total",), ("rest",))
    band: Exact = Fraction(1, 10)
    round: Annotated[tuple[Partition, ...], BeforeValidator(_listed)] = ()
    cells: int = Field(default=1, ge=1, le=100)
    then: tuple[ThenForm, ...] = Field(default=(), max_length=1)


class Form(_Part):
    """What the file of a declaration holds (docs/declarations.md)."""

    name: Annotated[str, StringConstraints(pattern=SMALL)]
    records: Annotated[str, StringConstraints(pattern=RECORDS)]
    unit: Literal["person", "household"] | None = None
    mechanism: Definition = "zcdp"
    budget: Exact
    delimiter: Literal[",", "|", ";", "\t"] = ","
    leaves: Leaves
    levels: tuple[Level, ...] = Field(min_length=2)
    bypass: bool = True
    records_file: RecordsFile | None = None
    axes: dict[Name, AxisForm] = Field(min_length=1)
    recodes: dict[Name, RecodeForm] = {}
    queries: dict[str, Exact | dict[str, Exact]]
    zeros: tuple[Zero, ...] = ()
    totals: tuple[TotalForm, ...] = ()
    counts: tuple[CountForm, ...] = ()
    equal: tuple[EqualForm, ...] = ()
    passes: tuple[PassForm, ...] = ()
    histograms: Texts | None = None

    @property
    def record_key(self) -> tuple[str, ...]:
        """Return the columns of a record that name its leaf."""
        return self.records_file.key if self.records_file else self.leaves.key

    @property
    def counts_are_totals(self) -> bool:
        """Return whether the totals of the leaves are declared, as counts."""
        return any(count.is_total for count in self.counts)

    @property
    def partitions(self) -> list[str]:
        """Return the partitions that have declared counts."""
        return list(dict.fromkeys([each.partition for each in self.counts] + [each.partition for each in self.equal]))

    @property
    def binding(self) -> list[str]:
        """Return the partitions whose counts do more than close the parts that count 0."""
        bound = [
            each.partition for each in self.counts if any(each.least) or any(isinstance(n, int) for n in each.most)
        ]
        return list(dict.fromkeys([*bound, *(each.partition for each in self.equal)]))

    @property
    def one_partition(self) -> bool:
        """Return whether declared are fewest records of the parts of one partition, or none: no sets, no limits."""
        limited = any(isinstance(most, int) for count in self.counts for most in count.most)
        return len(self.counts) + len(self.equal) <= 1 and not self.equal and (not limited or self.counts_are_totals)


def read_form(raw: Mapping[str, Any]) -> tuple[Form | None, list[Fault]]:
    """Return what a declaration's file holds, or None and every fault of its keys and types, one of a key."""
    try:
        return Form.model_validate(raw), []
    except ValidationError as error:
        faults = list(_faults(error.errors()))
        return None, list({fault.key: fault for fault in reversed(faults)}.values())[::-1]


def _faults(errors: Iterable[Any]) -> Iterable[Fault]:
    known = {field.alias or name for part in _Part.__subclasses__() for name, field in part.model_fields.items()}
    for error in errors:
        place = [str(part) for part in error["loc"] if not TYPE.fullmatch(str(part))]
        text = fault_words(error)
        if error["type"] == "extra_forbidden":
            near = get_close_matches(place[-1], known, 1, 0.75) if place[-1] not in known else []
            text = f"no such key: {place[-1]:.50}" + (f"; did you mean {near[0]}?" if near else "")
        elif error["type"] == "string_pattern_mismatch":
            text = f"{error['input']!r:.50}: write it in {PATTERNS[error['ctx']['pattern']]}"
        yield Fault(".".join(place), text)


def is_writable(text: str) -> bool:
    """Return whether a release's tables can hold a text: it is not empty, on one line, without | and quotes.

    A text that a spreadsheet would take for a formula is none, unless it is a number.
    """
    is_formula = text[:1] in ("=", "+", "-", "@") and not NUMBER.fullmatch(text)
    return bool(text) and text.isprintable() and not set(text) & set('|"') and not is_formula


def expanded(text: str) -> list[str]:
    """Return the values of a text: `0-3` is 0, 1, 2, 3, and `01-63` keeps its zeros; any other text is one value.

    Raises ValueError for a range that runs backwards or is too long.
    """
    if not (match := RANGE.fullmatch(text)):
        return [text]
    first, last = (int(end) for end in match.groups())
    if not 0 <= last - first < MOST_VALUES:
        raise ValueError(f"the range {text} runs backwards or is too long")
    width = len(match[1]) if match[1].startswith("0") else 0
    return [f"{value:0{width}d}" for value in range(first, last + 1)]
