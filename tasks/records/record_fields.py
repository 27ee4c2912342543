"""The columns of a table of records: the values that each may have, and what a value counts as.

Both readers of records go by it: the compiled one (`fast_records`) and those that find faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tasks.records.block_codes import BLOCK_COLUMNS, BLOCK_FACTORS, BLOCK_WIDTHS

UNREAD, DIGITS, LISTED, NUMBER, BOOLEAN, CODE, CODE_OR_NULL = range(7)
CODE_WIDTH = 4  # digits of a code of race or ethnicity
MOST_DIGITS = 9  # digits of a NUMBER that the kernel reads
FAULT = -1  # the meaning of a number that is not valid
NO_MEANING = -1  # in place of the first meaning of a field, for the kernel
NULL = "Null"


@dataclass(frozen=True)
class Field:
    """A column: its valid values, and what one adds to the numbers of its record.

    kind, width: UNREAD is any ASCII text; DIGITS are `width` digits; LISTED are `width` digits that have a meaning;
    NUMBER is a whole number to `most`, with any zeros before it (the kernel reads `width` digits of it); BOOLEAN is
    True or False; CODE is a listed code of four digits, the first not 0; CODE_OR_NULL may be Null as well.
    words: the valid values, for findings.
    place, factor: the number, or its meaning where there are meanings, times `factor` is added to number `place` of the
    record; a code's number is the record's code `place`.
    meanings: one per number from 0 on; FAULT for an invalid one.
    blank: whether a NUMBER may be blank, and is 0 then.
    """

    kind: int
    words: str = ""
    width: int = 0
    place: int = 0
    factor: int = 1
    meanings: tuple[int, ...] = ()
    most: int = 0
    blank: bool = False

    @property
    def is_code(self) -> bool:
        """True for a code of race or ethnicity."""
        return self.kind >= CODE

    def number(self, value: str) -> int | None:
        """Return what a value adds to its record, of a code the code itself, of Null 0; None if it is not valid."""
        if self.kind == UNREAD:
            return 0
        if self.kind == BOOLEAN:
            return 0 if value in ("True", "False") else None
        if self.kind == CODE_OR_NULL and value == NULL:
            return 0
        if self.blank and not value.strip(" "):
            value = "0"
        if not (value.isascii() and value.isdigit()):
            return None
        if self.kind == NUMBER:
            value = value.lstrip("0") or "0"
        elif len(value) != self.width:
            return None
        number = int(value[: MOST_DIGITS + 1])
        if self.kind == DIGITS:
            return number * self.factor
        if self.is_code:
            return number if value[0] != "0" else None
        if number > self.most:
            return None
        if not self.meanings:
            return number * self.factor
        return self.meanings[number] * self.factor if self.meanings[number] != FAULT else None

    @property
    def least(self) -> int:
        """The least valid number."""
        return next((number for number, meaning in enumerate(self.meanings) if meaning != FAULT), 0)


def digits(width: int, *, place: int = 0, factor: int = 1) -> Field:
    """Return a column of numbers of `width` digits, added up by `factor`; 0 for a column that is only checked."""
    return Field(DIGITS, f"{width} digits", width, place, factor)


def listed(meanings: Iterable[int], *, first: int = 1, width: int = 1, place: int = 0) -> Field:
    """Return a column of numbers of `width` digits from `first` on that mean these."""
    known = (*(FAULT,) * first, *meanings)
    words = f"{first:0{width}d} {'or' if len(known) == first + 2 else 'to'} {len(known) - 1:0{width}d}"
    return Field(LISTED, words, width, place, meanings=known, most=len(known) - 1)


def whole(meanings: Iterable[int], *, first: int = 0, place: int = 0, factor: int = 1, blank: bool = False) -> Field:
    """Return a column of whole numbers from `first` on that mean these."""
    known = (*(FAULT,) * first, *meanings)
    return replace(number(len(known) - 1, place=place, factor=factor, blank=blank), meanings=known)


def number(most: int, *, place: int = 0, factor: int = 1, blank: bool = False) -> Field:
    """Return a column of whole numbers from 0 to `most`, added up by `factor`."""
    words = f"whole numbers from 0 to {most}"
    return Field(NUMBER, words, MOST_DIGITS, place, factor, most=most, blank=blank)


def boolean() -> Field:
    """Return a column of True and False, which is only checked."""
    return Field(BOOLEAN, "True or False")


def code(place: int, *, or_null: bool = False) -> Field:
    """Return a column of codes of race or ethnicity, the record's code `place`."""
    words = f"{CODE_WIDTH} digits, the first not 0" + ", or Null" * or_null
    return Field(CODE_OR_NULL if or_null else CODE, words, CODE_WIDTH, place)


BLOCK_FIELDS = {
    name: digits(width, factor=BLOCK_FACTORS[name]) for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True)
}
