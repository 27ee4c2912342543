"""Interpret the texts of a table as names of areas: marks of unassigned blocks, and different spellings of a name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

UNASSIGNED = "unassigned"  # the name of all blocks outside the areas
MARKS = ("zz", "zzz", "na", "n/a", "#n/a", "<na>", "nan", "none", "null", "-1")  # in lower case
_NUMBER = re.compile(r"(-?[0-9]{1,18})(?:\.0*)?")


def read_names(rows: Mapping[str, int], marks: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Return the area that each text of a column names ("" for none), and notes. rows: the number of rows of each text.

    marks: further marks of unassigned blocks besides blanks, in lower case. `1.0` is 1, and `01` is 1 if both occur.
    """
    areas, notes = {}, []
    spellings: dict[int, set[str]] = {}
    for text in rows:
        number = _NUMBER.fullmatch(text)
        name = areas[text] = number[1] if number else text
        if not name or name.casefold() in marks:
            areas[text] = ""
            if name and name.casefold() != UNASSIGNED:
                notes.append(f"rows with the area {text}, whose blocks are {UNASSIGNED}: {rows[text]:,}")
        elif number:
            spellings.setdefault(int(name), set()).add(name)
    if blank := sum(rows[text] for text in rows if text.casefold() in ("", UNASSIGNED)):
        notes.append(f"rows with a blank area, whose blocks are {UNASSIGNED}: {blank:,}")
    for several in (sorted(names, key=len) for names in spellings.values() if len(names) > 1):
        notes.append(f"areas with the same number, taken as one: {', '.join(several)}")
        areas |= {text: several[0] for text, name in areas.items() if name in several}
    return areas, notes


def doubtful_zero(names: Collection[str]) -> str:
    """Return the area 0 if all areas are numbers, since it may mark unassigned blocks; else ""."""
    zero = [name for name in names if name.strip("0") == ""]
    others = [name for name in names if name not in zero]
    return zero[0] if len(zero) == 1 and others and all(name.isdecimal() for name in others) else ""


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders numbers within names (of at most 18 digits) as numbers."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return [(0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part) for part in parts]
