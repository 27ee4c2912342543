"""Pages of long tables."""

from __future__ import annotations

from collections.abc import Mapping

ROWS = 100  # of a page


def page_asked(asked: Mapping[str, str]) -> int:
    """Return the page that an address asks for; 0, for all rows, where it asks for a file of them."""
    if asked.get("format") == "csv":
        return 0
    number = asked.get("page", "1")
    return int(number) if number.isdecimal() and len(number) < 8 else 1


def page_bounds(total: int, asked: int) -> tuple[int, int, slice]:
    """Return the page shown of a table of `total` rows, the number of pages, and its rows; all rows for page 0."""
    pages = max(1, -(-total // ROWS))
    number = min(max(1, asked), pages)
    return number, pages, slice((number - 1) * ROWS, number * ROWS) if asked else slice(0, total)
