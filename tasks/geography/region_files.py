"""Files with a fact of each region, its name or a point of it: of a geography, as the Bureau has them, and of releases.

names.py and points.py describe the two facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from sys import intern
from typing import IO, Generic, TypeVar

from tasks.errors import Refused
from tasks.geography.blocks.files import list_files
from tasks.geography.regions import PUERTO_RICO, Region
from tasks.records.files import file_name, open_file, why
from tasks.records.marks import GRF_FILE
from tasks.releases.check import Check
from tasks.releases.received import NotOfRelease, read_in

KEY = ("REGION_TYPE", "REGION_ID")
LONGEST_LINE = 1 << 16  # bytes; a longer one has no fact
DIGITS = {"STATE": 2, "COUNTY": 5, "COUSUB": 10, "TRACT": 11, "PLACE": 7, "AIANNH": 4}
GAZETTEERS = {
    "state": "STATE",
    "count": "COUNTY",
    "cousub": "COUSUB",
    "tract": "TRACT",
    "place": "PLACE",
    "_aiannh_": "AIANNH",  # not aiannhr, aiannhrt: its reservation or its trust land alone
}
Fact = TypeVar("Fact")
Lines = Iterator[str]
Rows = Iterator[tuple[str, str, Sequence[str]]]  # type of region, code, texts of the fact


def is_region(kind: str, code: str) -> bool:
    """Return whether a type of region and a code are those of a region: nothing else becomes part of a release."""
    return len(code) == {"USA": 1, **DIGITS}.get(kind.removeprefix("PR-"), 0) and code.isascii() and code.isdecimal()


@dataclass(frozen=True)
class RegionFile(Generic[Fact]):
    """A kind of file with a fact of each region.

    file, columns: the name of a release's, and its columns behind KEY. what: the facts, and what a line must have.
    gazetteer: the columns in a Gazetteer file, `2020_Gaz_*_national.txt`; the type is in its name.
    (https://www.census.gov/programs-surveys/geography/technical-documentation/records-layout/gaz-record-layouts.html)
    parse, write: the fact in these columns' texts, None where there is none; its text. readers: what reads a file of
    another layout, by the ending of its name in lower case.
    """

    file: str
    columns: tuple[str, ...]
    what: tuple[str, str]
    gazetteer: tuple[str, ...]
    parse: Callable[[Sequence[str]], Fact | None]
    write: Callable[[Fact], str]
    readers: Mapping[str, Callable[[Lines], Rows]] = field(default_factory=dict)

    @property
    def header(self) -> str:
        """The first line of a release's file."""
        return "|".join((*KEY, *self.columns))

    def of_2020(self, file: str) -> dict[Region, Fact]:
        """Return the facts in a file that ships with the program."""
        lines = files("tasks.geography").joinpath(file).read_text("utf-8").splitlines()
        return self._facts(map(self._row, lines))

    def in_geography(self, geography: str) -> dict[Region, Fact]:
        """Return the facts in a geography by path or URL: a folder, an archive, or a file with those next to GRF-C.txt.

        Empty where it has none. Raises Refused where a file of such facts cannot be read.
        """
        folder, _, file = geography.rstrip("/").rpartition("/")
        try:
            listed = list_files(folder if file == GRF_FILE else geography)
        except OSError:  # a store whose files may be read, not listed
            listed = []
        facts: dict[Region, Fact] = {}
        for path in sorted([geography] if listed is None else listed):
            name = file_name(path.partition("::")[0]).lower().removesuffix(".gz")
            if reader := self._reader(name):
                facts |= self._read(path, reader)
        return facts

    def write_release(self, out: Path, facts: Mapping[Region, Fact], regions: Callable[[Region], bool]) -> None:
        """Write the file of a release: the facts of some regions, sorted."""
        kept = sorted((region, fact) for region, fact in facts.items() if regions(region))
        rows = (f"{region.type}|{region.id}|{self.write(fact)}\n" for region, fact in kept)
        (out / self.file).write_text(self.header + "\n" + "".join(rows), "utf-8")

    def of_release(self, release: Path, named: Collection[str]) -> dict[Region, Fact]:
        """Return the facts that a release has, whose manifest names these files; of any but its own file none.

        Raises NotOfRelease where its file is damaged.
        """
        if self.file not in named:
            return {}
        header, *lines = self._lines_of(release)
        if header != self.header:
            raise NotOfRelease(f"{self.file} has other columns than {', '.join((*KEY, *self.columns))}")
        return self._facts(map(self._row, lines))

    def check(self, release: Path, named: Collection[str]) -> Iterator[Check]:
        """Check that each line of a release's file is one region with its fact."""
        if self.file in named:
            known, wrong = len(self.of_release(release, named)), len([*filter(None, self._lines_of(release)[1:])])
            wrong -= known
            faults = (f"{wrong:,} lines are not a region's only line, with {self.what[1]}",) if wrong else ()
            yield Check(f"{self.what[0]} of regions", f"{known:,} regions", faults)

    def _lines_of(self, release: Path) -> list[str]:
        return read_in(release, self.file).decode("utf-8", "replace").split("\n")

    def _facts(self, rows: Iterable[tuple[str, str, Sequence[str]]]) -> dict[Region, Fact]:
        known = (
            (kind.removeprefix(PUERTO_RICO), code, self.parse(at)) for kind, code, at in rows if is_region(kind, code)
        )
        return {Region.named(intern(kind), code): fact for kind, code, fact in known if fact is not None}

    def _row(self, line: str) -> tuple[str, str, Sequence[str]]:
        """Return the parts of a line of a release's file."""
        kind, code, *texts = [*line.rstrip("\r\n").split("|", 1 + len(self.columns)), *[""] * (1 + len(self.columns))]
        return kind, code, texts[: len(self.columns)]

    def _reader(self, name: str) -> Callable[[Lines], Rows] | None:
        """Return what reads a file of this name; None for one without such facts."""
        if re.fullmatch(r"\d{4}_gaz_\w+\.txt", name):
            return partial(_read_gazetteer, name, self.gazetteer)
        if name == self.file:
            return self._read_own
        return next((reader for ending, reader in self.readers.items() if name.endswith(ending)), None)

    def _read_own(self, lines: Lines) -> Rows:
        """Yield the rows of a file with a release's columns; another file of its name may hold anything."""
        if next(lines, "").rstrip("\r\n") == self.header:
            yield from map(self._row, lines)

    def _read(self, path: str, reader: Callable[[Lines], Rows]) -> dict[Region, Fact]:
        """Return the facts in a file, in UTF-8 or, as the Bureau wrote its headers, Latin-1."""
        try:
            with open_file(path, compression="infer" if path.lower().endswith(".gz") else None) as stream:
                return self._facts(reader(_lines(stream)))
        except (OSError, NotImplementedError, RuntimeError) as error:  # also a password, an unknown compression
            reason = why(error) if isinstance(error, OSError) else str(error)
            raise Refused(f"{path} cannot be read for {self.what[0]}: {reason}") from None


def _lines(stream: IO[bytes]) -> Lines:
    for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b"")):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
        try:
            yield text.decode()
        except UnicodeDecodeError:
            yield text.decode("latin-1")


def _read_gazetteer(file: str, facts: Sequence[str], lines: Lines) -> Rows:
    """Yield the rows of a Gazetteer file, a table with a header line; it has bars since 2025."""
    kind = next((found for word, found in GAZETTEERS.items() if word in file), "")
    first = next(lines, "")
    delimiter = "|" if "|" in first else "\t"
    columns = [column.strip() for column in first.split(delimiter)]
    if not {"GEOID", *facts} <= set(columns):
        return
    for cells in (line.rstrip("\r\n").split(delimiter) for line in lines):
        if len(cells) == len(columns):
            row = dict(zip(columns, map(str.strip, cells), strict=True))
            # 2430R is area 2430 by its reservation, 2430T by its trust land, whose name is skipped
            yield kind, row["GEOID"].removesuffix("R"), [row[column] for column in facts]
