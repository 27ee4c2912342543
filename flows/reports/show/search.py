"""Words of names and queries, compared without case and accents; a typing error finds the nearest words."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from flows.reports.show.view import NotThere, Table, View

FEW = 8  # matches that a refusal names
FOUND = 40  # answers of a kind that a search lists
ALIKE = 0.8  # of two words: twice their common letters over all their letters; at 0.7 Cranston is near Graton
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


class Vocabulary:
    """The words of all names that a search knows."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = sorted({word for text in texts for word in words_of(text)})

    def corrected(self, text: str) -> str:
        """Return a query with the nearest known word for each that begins none; "" where none is wrong, or too wrong.

        A word with a digit is a code, and SMALL words name nothing: both stay.
        """
        found = [self._nearest(word) for word in words_of(text)]
        return "" if None in found or found == words_of(text) else " ".join(filter(None, found))

    def begins(self, word: str) -> bool:
        """Return whether a word begins a known one."""
        place = bisect_left(self._words, word)
        return place < len(self._words) and self._words[place].startswith(word)

    def _nearest(self, word: str) -> str | None:
        if self.begins(word) or word in SMALL or not word.isalpha():
            return word
        alike = [one for one in self._words if one[0] == word[0]]
        return next(iter(get_close_matches(word, alike, 1, ALIKE)), None)


def only(
    search: Callable[[str], Sequence[Found]], what: str, text: str, name: Callable[[Found], str], words: Vocabulary
) -> Found:
    """Return the only match of a text. Raises NotThere for none, with the nearest, or several, with their names."""
    found = search(text)
    if len(found) == 1:
        return found[0]
    if not found:
        nearest = search(words.corrected(text))
        hint = f"; nearest: {'; '.join(map(name, nearest[:FEW]))}" if nearest else ""
        raise NotThere(f"no {what} matches {text!r}{hint}")
    more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
    raise NotThere(f"several {what}s match {text!r}: {'; '.join(map(name, found[:FEW]))}{more}; give the code of one")


@dataclass(frozen=True)
class Answer:
    """An answer of a search: its address, what it is, its code and name, what contains it, and of a group its count."""

    address: str
    kind: str
    code: str
    name: str
    within: str = ""
    count: str = ""


@dataclass(frozen=True)
class Answers:
    """The answers of one kind, the first of them, with the words for one and for several."""

    one: str
    several: str
    total: int
    first: Sequence[Answer]


@dataclass(frozen=True, kw_only=True)
class FoundView(View):
    """What a search finds. nearest: the query that was answered, where nothing matches the one that was asked."""

    query: str
    kinds: Sequence[Answers]
    nearest: str
    view: str = "find"

    def table(self) -> Table:
        """Return the answers."""
        answers = [one for kind in self.kinds for one in kind.first]
        return ["KIND", "CODE", "NAME", "WITHIN"], [[one.kind, one.code, one.name, one.within] for one in answers]


def find(query: str, reading: str, words: Vocabulary, search: Callable[[str], Sequence[Answers]]) -> FoundView:
    """Return what a search finds for a query, or else for the nearest query of known words."""
    kinds, nearest = search(query), ""
    if not any(kind.total for kind in kinds) and (corrected := words.corrected(query)):
        again = search(corrected)
        if any(kind.total for kind in again):
            kinds, nearest = again, corrected
    title = f"“{query}”" if query else "Find"
    return FoundView(title=title, reading=reading, query=query, kinds=kinds, nearest=nearest)
