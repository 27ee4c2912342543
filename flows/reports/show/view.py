"""What one page of a release shows, whichever system made it, and what a release that may be anybody's can raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tasks.errors import Failed, Refused
from tasks.releases.manifest import MANIFEST, require_release
from tasks.releases.manifest import read_manifest as manifest_of
from tasks.releases.received import NotOfRelease, reason_of

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
    shown = slice((number - 1) * ROWS, number * ROWS) if asked else slice(0, total)
    return Page(read(shown) if total else (), number, pages, total)


def link(view: str, **options: str) -> str:
    """Return the address of a view with those options that are not empty."""
    return view + "".join(f"&{name}={value}" for name, value in options.items() if value)


Table = tuple[list[str], list[list[Any]]]  # columns and rows
Links = Sequence[tuple[str, str]]  # words and addresses


class NotThere(Exception):
    """No view has that address, name or code; the message names it and the remedy."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What one page shows: typed rows, which the page, the terminal, the CSV and the JSON all show unchanged.

    reading: how to read it, in a sentence or two. view: the name of its template.
    """

    title: str
    reading: str
    view: str

    def table(self) -> Table:
        """Return the main table, as CSV has it."""
        raise NotImplementedError

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows of its table, not a page of them."""
        return True

    def described(self) -> Sequence[tuple[str, ...]]:
        """Return name, heading, unit and meaning of its columns; by default nothing."""
        return ()


@contextmanager
def anybodys(folder: Path) -> Iterator[None]:
    """Turn what a release of another shape makes the code inside raise into a refusal: it may be anybody's work.

    No list of what its manifest and tables must be would be complete. What names its own reason passes.
    """
    try:
        yield
    except (Refused, Failed, NotThere, OSError):
        raise
    except Exception as error:
        what = f"{folder} is not what its {MANIFEST} says, or not a release of its kind"
        raise Refused(f"{what}: {reason_of(error)}") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a release of any kind. Raises Refused where the folder is none."""
    require_release(folder)
    try:
        manifest = manifest_of(folder)
    except NotOfRelease as fault:
        raise Refused(f"{folder}: {fault}") from None
    if not all(isinstance(manifest.get(key), str) for key in ("release", "run")):
        raise Refused(f"{folder / MANIFEST} is not the manifest of a release: it does not say what, or of which run")
    return manifest
