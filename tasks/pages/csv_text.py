"""Tables as CSV in which a spreadsheet finds figures and text, and no formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = re.compile(r"[=+\-@\t\r]")  # as a spreadsheet begins one
_FIGURE = re.compile(r"(?:[-+0-9.,%() ]|to)+")  # also an interval: nothing in it can call a function


def as_csv(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as the text of a CSV file; None is empty. Text that would be a formula gets an apostrophe.

    Names in a table may be anybody's. Numbers, and texts that are figures, stay as they are.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_inert(cell) for cell in row] for row in (columns, *rows))
    return text.getvalue()


def _inert(cell: Any) -> Any:
    formula = isinstance(cell, str) and _FORMULA.match(cell) and not _FIGURE.fullmatch(cell)
    return f"'{cell}" if formula else cell
