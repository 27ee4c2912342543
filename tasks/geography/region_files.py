"""Files with a fact about each region, its name or a point of it, as in a release.

names.py and points.py define the two facts; public_regions.py reads them from a geography.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from sys import intern
from typing import Generic, TypeVar

from tasks.geography.regions import PUERTO_RICO, Region
from tasks.releases.check import Check
from tasks.releases.received import NotOfRelease, read_in

KEY = ("REGION_TYPE", "REGION_ID")
DIGITS = {"STATE": 2, "COUNTY": 5, "COUSUB": 10, "TRACT": 11, "PLACE": 7, "AIANNH": 4}
Fact = TypeVar("Fact")
Rows = Iterator[tuple[str, str, Mapping[str, str]]]  # type of region, its code, texts by column


def is_region(kind: str, code: str) -> bool:
    """Return whether a type and code are a region's: nothing else becomes part of a release."""
    return len(code) == {"USA": 1, **DIGITS}.get(kind.removeprefix("PR-"), 0) and code.isascii() and code.isdecimal()


def rows_of(lines: Iterable[str], columns: Sequence[str], delimiter: str = "|") -> Iterator[dict[str, str]]:
    """Yield the lines that have a text for each column."""
    for line in lines:
        texts = line.rstrip("\r\n").split(delimiter)
        if len(texts) == len(columns):
            yield dict(zip(columns, texts, strict=True))


@dataclass(frozen=True)
class RegionFile(Generic[Fact]):
    """A kind of file with a fact about each region.

    file, columns: its name, and its columns after KEY. what: the facts, and what a line must have. parse: returns the
    fact in these columns' texts, or None. write: returns a fact's text.
    """

    file: str
    columns: tuple[str, ...]
    what: tuple[str, str]
    parse: Callable[[Sequence[str]], Fact | None]
    write: Callable[[Fact], str]

    @property
    def header(self) -> str:
        """The first line of the file."""
        return "|".join((*KEY, *self.columns))

    def of_2020(self, file: str) -> dict[Region, Fact]:
        """Return the facts in a file that ships with the program."""
        return self._facts(files("tasks.geography").joinpath(file).read_text("utf-8").splitlines())

    def write_release(self, out: Path, facts: Mapping[Region, Fact], regions: Callable[[Region], bool]) -> None:
        """Write the file of a release: the facts about some regions, sorted."""
        kept = sorted((region, fact) for region, fact in facts.items() if regions(region))
        rows = (f"{region.type}|{region.id}|{self.write(fact)}\n" for region, fact in kept)
        (out / self.file).write_text(self.header + "\n" + "".join(rows), "utf-8")

    def of_release(self, release: Path, named: Collection[str]) -> dict[Region, Fact]:
        """Return the facts in a release whose manifest names these files; empty if it lacks the file.

        Raises NotOfRelease for a damaged file.
        """
        if self.file not in named:
            return {}
        header, *lines = self._lines_of(release)
        if header != self.header:
            raise NotOfRelease(f"{self.file} has other columns than {', '.join((*KEY, *self.columns))}")
        return self._facts(lines)

    def check(self, release: Path, named: Collection[str]) -> Iterator[Check]:
        """Check that each line of a release's file is one region with its fact."""
        if self.file in named:
            known, wrong = len(self.of_release(release, named)), len([*filter(None, self._lines_of(release)[1:])])
            wrong -= known
            faults = (f"{wrong:,} lines are not a region's only line, with {self.what[1]}",) if wrong else ()
            yield Check(f"{self.what[0]} of regions", f"{known:,} regions", faults)

    def rows(self, lines: Iterable[str]) -> Rows:
        """Yield the rows below the header of such a file."""
        for row in rows_of(lines, (*KEY, *self.columns)):
            yield row[KEY[0]], row[KEY[1]], row

    def take(self, facts: dict[Region, Fact], kind: str, code: str, row: Mapping[str, str]) -> None:
        """Add the fact of a row, if the row describes a region and has one."""
        fact = self.parse([row.get(name, "") for name in self.columns]) if is_region(kind, code) else None
        if fact is not None:
            facts[Region.named(intern(kind.removeprefix(PUERTO_RICO)), code)] = fact

    def _lines_of(self, release: Path) -> list[str]:
        return read_in(release, self.file).decode("utf-8", "replace").split("\n")

    def _facts(self, lines: Iterable[str]) -> dict[Region, Fact]:
        facts: dict[Region, Fact] = {}
        for row in self.rows(lines):
            self.take(facts, *row)
        return facts
