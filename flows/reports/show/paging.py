"""Pages of long tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

ROWS = 100  # of a page
Row = TypeVar("Row")


@dataclass(frozen=True)
class Page(Generic[Row]):
    """One page of a long table."""

    rows: Sequence[Row]
    number: int
    pages: int
    total: int


def page_asked(asked: Mapping[str, str]) -> int:
    """Return the number of the page that an address asks for; 0, for all rows, where it asks for a file of them."""
    if asked.get("format") in ("csv", "xlsx"):
        return 0
    number = asked.get("page", "1")
    return int(number) if number.isdecimal() and len(number) < 8 else 1


def page_of(total: int, asked: int, read: Callable[[slice], Sequence[Row]]) -> Page[Row]:
    """Return page `asked` of a table of `total` rows, which `read` returns; all rows for page 0."""
    pages = max(1, -(-total // ROWS))
    number = min(max(1, asked), pages)
    return Page(read(slice((number - 1) * ROWS, number * ROWS) if asked else slice(0, total)), number, pages, total)


def limit(shown: slice) -> str:
    """Return the clause that ends a query for these rows alone."""
    return f"LIMIT {shown.stop - shown.start} OFFSET {shown.start}"
