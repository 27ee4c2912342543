"""dictionary.csv of a release: every column of its tables, with its unit, its codes and their meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

DICTIONARY_FILE = "dictionary.csv"
DICTIONARY_COLUMNS = ("FILES", "COLUMN", "UNIT", "CODE", "MEANING")


@dataclass(frozen=True)
class Column:
    """A column of a release's tables, by a pattern of their names.

    codes: the values that it can have, with their meanings, where they are few.
    """

    name: str
    unit: str
    meaning: str
    codes: Mapping[str, str] = field(default_factory=dict)


LATITUDE = Column("LATITUDE", "degrees", "of a point of the area, to draw it on a map")
LONGITUDE = Column("LONGITUDE", "degrees", "of the same point, east of Greenwich")
Dictionary = Mapping[str, Iterable[Column]]  # by patterns of files, separated by blanks


def write_dictionary(out: Path, dictionary: Dictionary, files: Iterable[str]) -> None:
    """Write OUT/dictionary.csv: of the columns of these files, pipe-delimited, a line a column and a line a code."""
    names = list(files)
    lines = ["|".join(DICTIONARY_COLUMNS)]
    for patterns, columns in dictionary.items():
        if described(patterns, names):
            for column in columns:
                lines.append("|".join((patterns, column.name, column.unit, "", column.meaning)))
                lines += ["|".join((patterns, column.name, "", *code)) for code in column.codes.items()]
    (out / DICTIONARY_FILE).write_text("\n".join(lines) + "\n", "utf-8")


def described(patterns: str, files: Iterable[str]) -> list[str]:
    """Return the files that one of the patterns names."""
    return [name for name in files if any(fnmatchcase(name, pattern) for pattern in patterns.split())]
