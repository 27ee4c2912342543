"""Words of names and queries, compared without case and accents."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import TypeVar

from flows.reports.show.release_pages import NotThere

FEW = 8  # matches that a refusal names
Found = TypeVar("Found")
# Words of a query that name neither a region nor an iteration.
SMALL = "how many much people persons who are is live lives living in of the a".split()  # noqa: SIM905


def words_of(text: str) -> list[str]:
    """Return lower-case words without accents."""
    return _folded(text).split()


def _folded(text: str) -> str:
    if not text.isascii():
        text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return text.casefold().replace(",", " ")


def matches(wanted: Sequence[str], text: str) -> bool:
    """Return whether each wanted word begins a word of a text."""
    if not wanted:
        return True
    words = words_of(text)
    return all(any(word.startswith(want) for word in words) for want in wanted)


def only(found: Sequence[Found], what: str, text: str, name: Callable[[Found], str], hint: str = "") -> Found:
    """Return the only match of a text. Raises NotThere for none, with the hint, or several, with their names."""
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotThere(f"no {what} matches {text!r}{hint}")
    more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
    raise NotThere(f"several {what}s match {text!r}: {'; '.join(map(name, found[:FEW]))}{more}")
