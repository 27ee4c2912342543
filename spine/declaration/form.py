"""The form of a declaration: what its file says, in the file's own keys. Unknown keys are refused.

Everything here is public. Shares and budgets are exact: whole numbers, or text as "1/10" and "0.1". A figure of the
records has no key: what is declared comes from files that their owner calls public.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from privacy.noise.exact import exact_number
from spine.fault_words import fault_words
from spine.settings import Definition

RANGE = re.compile("([0-9]{1,9})-([0-9]{1,9})")
OPEN, BEYOND = re.compile("([0-9]{1,9})-([0-9]{1,9})[+]"), 20  # a range without an end, and how far one may go on
NUMBER = re.compile("[+-]?[0-9.]+(-[0-9.]+)?")  # or a range: a code of a cell
LITERAL = "is:"  # before a value that looks like a range
OF_BOTTOM_UP = ("states", "not_places", "weight")  # keys that das tda refuses
MOST_VALUES = 1 << 20  # values of an axis
TYPE = re.compile(r"str|constrained-\w+|.*[\[(].*")  # a value's type in a fault's location, not a key


NAME, SMALL, RECORDS = r"^[A-Za-z][A-Za-z0-9_]{0,63}$", r"^[a-z0-9][a-z0-9-]{0,39}$", r"^[a-z][a-z -]{0,39}$"
PATTERNS = {  # in words
    NAME: "letters a to z, digits and _, a letter first, 64 at most",
    SMALL: "small letters a to z, digits and dashes, 40 at most",
    RECORDS: "small letters a to z, spaces and dashes, 40 at most",
}


class Fault(NamedTuple):
    """A fault of a declaration: the key of its file, such as `axes.sex.values`, and a sentence."""

    key: str
    text: str


def _exact(value: object) -> Fraction:
    if isinstance(value, str | int) and not isinstance(value, bool):
        with suppress(ValueError):
            return exact_number(str(value))
    raise ValueError(
        f'{str(value)[:40]!r} is not an exact number: write a whole number, or text such as "1/10" or "0.1"'
    )


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


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, arbitrary_types_allowed=True)


class Leaves(_Section):
    """The table of leaves: one row a leaf, every leaf that may hold a record. key: its columns that name a leaf."""

    file: str
    key: Texts = Field(min_length=1)


class MadeLevel(_Section):
    """A level that is made rather than read: runs of leaves, of bounded size, that agree in the columns `apart`.

    within: the level above it. cap: children of a group, floor(sqrt(n)) + 13 in a geounit of n leaves, as the
    production programs have it.
    """

    within: str
    apart: Texts = ()
    cap: Literal["sqrt+12"] = "sqrt+12"


class DeclaredLevel(_Section):
    """A level: a geounit is the leaves that agree in `columns` and in those of the levels above.

    names: the column of the leaves with the geounits' names.
    """

    name: Name
    columns: Texts = ()
    names: str | None = None
    share: Exact | None = None
    made: MadeLevel | None = None


class RecordsFile(_Section):
    """The columns of a record that name its leaf, one for each of the leaves' key; by default they have its names."""

    key: Texts


class AxisForm(_Section):
    """An axis: the column of records that it is read from, and the values of its cells.

    A text of `values` is one value, or a range `0-115` of one cell a value; a list in it is one cell of all its values.
    """

    column: str
    values: Values
    labels: Texts = ()
    words: str = ""


class RecodeForm(_Section):
    """Groups of an axis's cells: by their values, by a width, or by the first value of each."""

    axis: str
    parts: Values | None = Field(default=None, alias="from")
    width: int | None = Field(default=None, ge=2)
    starts: tuple[int, ...] | None = None
    labels: Texts = ()
    words: str = ""


class Zero(_Section):
    """Cells that no record can be in: those that meet all conditions, by axis or recode; `not:` negates one."""

    where: dict[str, Texts] = Field(min_length=1)


class TotalForm(_Section):
    """Declared totals of the geounits of a level, or of groups of leaves that agree in columns."""

    of: Texts = Field(min_length=1)
    file: str


class CountForm(_Section):
    """Declared counts of the parts of a partition, by leaf: no record is where the count is 0.

    columns: the leaves' columns, in the partition's order; "" for a part without declared counts. least, most: records
    for each counted, by default 0 and no limit. repair: the counts are met after the leaves are estimated, by records
    that switch between parts inside the sums that `equal` fixes.
    """

    partition: Partition
    columns: Texts
    least: tuple[Factor, ...] = ()
    most: tuple[Factor | Literal[""], ...] = ()
    repair: Literal["switch"] | None = None

    @property
    def is_total(self) -> bool:
        """Return whether the counts are of whole leaves, one record each: totals."""
        return self.partition == "total" and self.least == self.most == (1,)


class EqualForm(_Section):
    """Equality of a partition's counts in every leaf with those of a published release, a folder.

    table: its name in the release's description, where several tables have such counts. columns: by recode, the
    release's column with its parts, which have the recode's labels there. only: by column of the release the values of
    the rows that are read. The estimates have these counts, whatever the records have: the release is public, and read
    instead of them.
    """

    partition: Partition
    release: str
    table: str = ""
    columns: dict[str, str] = {}
    only: dict[str, Texts] = {}


class ThenForm(_Section):
    """The passes after a rounding: what the chain before rounded is kept exactly; `round` refines it.

    anchors: as of `PassForm`.
    """

    least_squares: tuple[Texts, ...] = (("rest",),)
    round: Annotated[tuple[Partition, ...], BeforeValidator(_listed)] = ()
    anchors: dict[Partition, Exact] = {}


class PassForm(_Section):
    """The passes of some levels, the chain of sums that rounding keeps close to, and the weight of the cells.

    rounding: of a wide table, as the programs do, or carried: what a sum has lost in rounding is made up for later;
    stepwise: also, the last sums of `round` but one come before the last.
    anchors: sums that no query asks and that the top of a wide table keeps close to those of all answers of its cells,
    also of cells that are 0, with weights next to these.
    """

    levels: Texts = Field(min_length=1)
    least_squares: tuple[Texts, ...] = (("total",), ("rest",))
    band: Exact = Fraction(1, 10)
    round: Annotated[tuple[Partition, ...], BeforeValidator(_listed)] = ()
    cells: int = Field(default=1, ge=1, le=100)
    then: tuple[ThenForm, ...] = Field(default=(), max_length=1)
    rounding: Literal["program", "carried", "stepwise"] = "program"
    anchors: dict[Partition, Exact] = {}


class Weight(_Section):
    """Weighted records: no weight is above `most`; weights are counted in steps of `grid`."""

    column: str
    most: Annotated[Exact, Field(gt=0)]
    grid: Annotated[Exact, Field(gt=0)] = Fraction(1)


class PublishedTable(_Section):
    """A table that a release has besides those of its queries: counts by a partition in the released histograms.

    universe: whom it counts, in words; `where` says by axis or recode which cells these are, as of a zero.
    """

    title: str
    universe: str
    by: Partition
    where: dict[str, Texts] = {}


class Publish(_Section):
    """Tables by the name of their files, and recodes for them alone. No noise or estimate depends on them."""

    recodes: dict[Name, RecodeForm] = {}
    tables: dict[Annotated[str, StringConstraints(pattern=SMALL)], PublishedTable] = {}


class TableForm(_Section):
    """The histogram of a declaration: the keys of a declaration that das bottom-up reads (docs/declarations.md).

    states: two-digit FIPS codes of all states that the table covers, which are charged; by default every state is.
    not_places: axes, levels and recodes whose values look like codes of places and are not. das tda reads neither, nor
    weights (`OF_BOTTOM_UP`).
    """

    records: Annotated[str, StringConstraints(pattern=RECORDS)] = "person"
    unit: Literal["person", "household"] | None = None
    delimiter: Literal[",", "|", ";", "\t"] = ","
    leaves: Leaves | None = None
    levels: tuple[DeclaredLevel, ...] = ()
    records_file: RecordsFile | None = None
    axes: dict[Name, AxisForm] = Field(min_length=1)
    recodes: dict[Name, RecodeForm] = {}
    zeros: tuple[Zero, ...] = ()
    states: tuple[str, ...] = Field(default=(), min_length=1)
    not_places: Texts = ()
    weight: Weight | None = None

    @property
    def record_key(self) -> tuple[str, ...]:
        """Return the columns of a record that name its leaf; empty without leaves."""
        if self.records_file:
            return self.records_file.key
        return self.leaves.key if self.leaves else ()


class Form(TableForm):
    """The keys of a declaration that das tda reads.

    measurements: which noisy answers of a wide table are published: those that were `read`, `all`, or `above LEVEL` all
    of the levels down to this one. copied: columns of the table of leaves with whole numbers that a release's microdata
    repeat: public figures of what the table does not count.
    """

    name: Annotated[str, StringConstraints(pattern=SMALL)]
    records: Annotated[str, StringConstraints(pattern=RECORDS)]
    mechanism: Definition = "zcdp"
    budget: Exact
    leaves: Leaves
    levels: tuple[DeclaredLevel, ...] = Field(min_length=2)
    bypass: bool = True
    queries: dict[str, Exact | dict[str, Exact]]
    totals: tuple[TotalForm, ...] = ()
    counts: tuple[CountForm, ...] = ()
    equal: tuple[EqualForm, ...] = ()
    passes: tuple[PassForm, ...] = ()
    histograms: Texts | None = None
    measurements: str = "read"
    publish: Publish = Publish()
    copied: Texts = ()

    @property
    def full_levels(self) -> list[str]:
        """Return the levels of a wide table whose noisy answers are all published."""
        names = [level.name for level in self.levels]
        _, above, lowest = self.measurements.rpartition("above ")
        return names if self.measurements == "all" else names[: names.index(lowest) + 1] if above else []

    @property
    def counts_are_totals(self) -> bool:
        """Return whether the totals of the leaves are declared, as counts."""
        return any(count.is_total for count in self.counts)

    @property
    def totals_are_known(self) -> bool:
        """Return whether the totals of the leaves are declared: as counts, or as sums of a release's."""
        return self.counts_are_totals or bool(self.equal)

    @property
    def is_wide(self) -> bool:
        """Return whether a release's sums divide the table, and what `round` made of them is kept (`spine.wide`)."""
        return bool(self.equal) and any(each.then for each in self.passes)

    @property
    def kept_counts(self) -> tuple[CountForm, ...]:
        """Return the declared counts that every estimate meets, without those that a repair meets."""
        return tuple(each for each in self.counts if not each.repair)

    @property
    def partitions(self) -> list[str]:
        """Return the partitions whose counts every estimate meets."""
        return list(
            dict.fromkeys([*(each.partition for each in self.kept_counts), *(each.partition for each in self.equal)])
        )

    @property
    def binding(self) -> list[str]:
        """Return the partitions whose counts do more than close the parts that count 0."""
        bound = [
            each.partition for each in self.kept_counts if any(each.least) or any(isinstance(n, int) for n in each.most)
        ]
        return list(dict.fromkeys([*bound, *(each.partition for each in self.equal)]))

    @property
    def one_partition(self) -> bool:
        """Return whether declared are fewest records of the parts of one partition, or none: no sets, no limits."""
        limited = any(isinstance(most, int) for count in self.counts for most in count.most)
        return len(self.counts) + len(self.equal) <= 1 and not self.equal and (not limited or self.counts_are_totals)


F = TypeVar("F", bound=TableForm)


def read_form(raw: Mapping[str, Any], kind: type[F]) -> tuple[F | None, list[Fault]]:
    """Return what a declaration's file holds, or None and every fault of its keys and types, one of a key."""
    try:
        return kind.model_validate(raw), []
    except ValidationError as error:
        faults = list(_faults(error.errors()))
        return None, list({fault.key: fault for fault in reversed(faults)}.values())[::-1]


def _faults(errors: Iterable[Any]) -> Iterable[Fault]:
    parts: list[type[_Section]] = [*_Section.__subclasses__(), Form]
    known = {field.alias or name for part in parts for name, field in part.model_fields.items()}
    for error in errors:
        place = [str(part) for part in error["loc"] if not TYPE.fullmatch(str(part))]
        text = fault_words(error)
        if error["type"] == "extra_forbidden":
            near = get_close_matches(place[-1], known, 1, 0.75) if place[-1] not in known else []
            text = f"no such key: {place[-1]:.50}" + (f"; did you mean {near[0]}?" if near else "")
        elif error["type"] == "string_pattern_mismatch":
            text = f"{error['input']!r:.50}: write it in {PATTERNS[error['ctx']['pattern']]}"
        yield Fault(".".join(place), text)


def record_faults(form: TableForm) -> Iterator[Fault]:
    """Yield what is wrong with the unit of the account, and with the columns that name a record's leaf."""
    if form.unit is None and form.records not in ("person", "household"):
        yield Fault(
            "unit",
            f'accounts are of persons or of households: unit = "person" where each {form.records} is the record of one '
            f'person, unit = "household" where each is that of one household',
        )
    if form.unit is not None and form.records in ("person", "household") and form.unit != form.records:
        yield Fault("unit", f"a record is a {form.records}, and the account is of a {form.unit}: leave unit out")
    columns, given = len(form.leaves.key) if form.leaves else 0, len(form.record_key)
    if given != columns:
        text = f"it names {given} columns for the {columns} of leaves.key: name one for each, in that order"
        yield Fault("records_file.key", text)
    if form.levels and (form.leaves is None or len(form.levels) == 1):
        yield Fault("levels", "they divide leaves, and the last are the leaves themselves: give leaves and two levels")


def code_faults(columns: Mapping[str, Iterable[str]]) -> list[Fault]:
    """Return, by column of the table of leaves, the first code that no release can hold."""
    return [
        Fault(
            f"leaves.{name}",
            f'the code {wrong[0]!r:.50} is empty, has | or " or is a formula: give another, here and in the records',
        )
        for name, codes in columns.items()
        if (wrong := sorted(code for code in {*codes} if not is_writable(code)))
    ]


def is_writable(text: str) -> bool:
    """Return whether a release's tables can hold a text: it is not empty, on one line, without | and quotes.

    False for a text that a spreadsheet would take for a formula, unless it is a number.
    """
    is_formula = text[:1] in ("=", "+", "-", "@") and not NUMBER.fullmatch(text)
    return bool(text) and text.isprintable() and not set(text) & set('|"') and not is_formula


def closed_range(text: str) -> tuple[str, str] | None:
    """Return what `0-100+` stands for, the values 0-99 and one cell of 100-120; else None."""
    if not (match := OPEN.fullmatch(text)) or int(match[2]) <= int(match[1]):
        return None
    first, last = match.groups()
    return f"{first}-{int(last) - 1:0{len(first)}d}", f"{last}-{int(last) + BEYOND}"


def expanded(text: str) -> list[str]:
    """Return the values of a text: `0-3` is 0, 1, 2, 3, and `01-63` keeps its zeros; any other text is one value.

    `is:0-3` is the one value 0-3.
    Raises ValueError for a range that runs backwards, is too long or has no end.
    """
    if closed := closed_range(text):
        single, rest = closed
        raise ValueError(f'{text} has no end: write "{single}", ["{rest}"], with the largest value that there is')
    if not (match := RANGE.fullmatch(text)):
        return [text.removeprefix(LITERAL)]
    first, last = (int(end) for end in match.groups())
    if not 0 <= last - first < MOST_VALUES:
        raise ValueError(f"the range {text} runs backwards or is too long")
    width = len(match[1]) if match[1].startswith("0") else 0
    return [f"{value:0{width}d}" for value in range(first, last + 1)]
