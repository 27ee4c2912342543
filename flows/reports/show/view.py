"""The content of one page of a release of any system, at a confidence: 95% by default, or any other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

from privacy.noise.margins import normal_margin
from tasks.errors import Failed, Refused
from tasks.releases.manifest import MANIFEST
from tasks.releases.received import reason_of

ROWS = 100  # rows on a page
Row = TypeVar("Row")


@dataclass(frozen=True)
class Page(Generic[Row]):
    """One page of a long table."""

    rows: Sequence[Row]
    number: int
    pages: int
    total: int


def page_asked(asked: Mapping[str, str]) -> int:
    """Return the page number in an address; 0, for all rows, if it asks for a file of them."""
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
    """Return the address of a view with its options, except empty ones."""
    return view + "".join(f"&{name}={value}" for name, value in options.items() if value)


Table = tuple[list[str], list[list[Any]]]  # columns and rows
Links = Sequence[tuple[str, str]]  # words and addresses


class NotThere(Exception):
    """No view has that address, name or code; the message names it and the remedy."""


@dataclass(frozen=True, kw_only=True)
class View:
    """The content of one page: typed rows, which the page, the terminal, the CSV and the JSON all show unchanged.

    reading: how to read it, in a sentence or two. view: the name of its template.
    """

    title: str
    reading: str
    view: str

    def table(self) -> Table:
        """Return the main table, as in the CSV."""
        raise NotImplementedError

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows of its table, not a page of them."""
        return True

    def described(self) -> Sequence[tuple[str, ...]]:
        """Return name, heading, unit and meaning of its columns; empty by default."""
        return ()


@dataclass(frozen=True)
class Confidence:
    """A confidence as a percentage, in digits: `95`, `99.5`."""

    percent: str

    @classmethod
    def named(cls, text: str) -> Confidence:
        """Return the confidence in a text. Raises NotThere unless it is from 50 to 99.9."""
        digits = text.strip().removesuffix("%")
        if not re.fullmatch(r"\d\d(\.\d)?", digits) or Fraction(digits) < 50:
            raise NotThere(f"{text!r} is not a confidence from 50 to 99.9 percent, such as 90")
        return cls(digits.removesuffix(".0"))

    @property
    def alpha(self) -> Fraction:
        """The share of runs in which noise may exceed a margin."""
        return 1 - Fraction(self.percent) / 100

    @property
    def is_released(self) -> bool:
        """Whether it is the confidence of the margins in a release's files."""
        return self == RELEASED

    @property
    def deviations(self) -> float:
        """The number of standard deviations of a normal law in a margin."""
        return normal_margin(self.alpha)


RELEASED = Confidence("95")
MARGIN = re.compile(r"(.*_)?(MOE|margin)(_.*)?$", re.IGNORECASE)  # names of columns


@dataclass(frozen=True)
class Reading:
    """A view, and the facts about its release on every page, including the confidence of the margins."""

    view: View
    about: Mapping[str, Any]

    @property
    def table(self) -> Table:
        """The view's main table; columns of margins at another confidence than the release's name it, `MOE_90`."""
        (columns, rows), at = self.view.table(), self.about["confidence"]
        if at.is_released:
            return columns, rows
        return [f"{name}_{at.percent}" if MARGIN.match(name) else name for name in columns], rows

    @property
    def data(self) -> dict[str, Any]:
        """The view as JSON, with `confidence` if its margins are not the release's own."""
        at = self.about["confidence"]
        named = {} if at.is_released else {"confidence": at.percent}
        return asdict(self.view) | named | {"changed": self.about["changed"]}


@contextmanager
def refusing_malformed(folder: Path) -> Iterator[None]:
    """Turn errors of the code within, which a malformed release may raise, into a refusal.

    No list of requirements on its manifest and tables would be complete. Errors with their own reason pass.
    """
    try:
        yield
    except (Refused, Failed, NotThere, OSError):
        raise
    except Exception as error:
        what = f"{folder} is not what its {MANIFEST} says, or not a release of its kind"
        raise Refused(f"{what}: {reason_of(error)}") from error
