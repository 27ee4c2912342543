"""Find the regions and the named codes of a release, such as iterations, or both: by code, or by words of their names.

Words are compared without case and accents. A misspelled word finds the closest words.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from typing import NamedTuple, TypeVar

from flows.reports.show.geography import TITLES
from flows.reports.show.view import NotThere, Table, View
from tasks.geography.regions import Region

FEW = 8  # matches in a refusal
FOUND = 40  # results of a kind in a list
MOST_WORDS = 8  # words of a query for a region and a code
ALIKE = 0.8  # twice two words' common letters, over all their letters; at 0.7 Cranston is close to Graton
Found = TypeVar("Found", "Region", "Code")
# Words of a query that name neither a region nor a code.
SMALL = "how many much people persons who are is live lives living in of the a".split()  # noqa: SIM905


class Several(NotThere):
    """Several match: the requested text, and the key and name of the first matches."""

    def __init__(self, message: str, asked: str, found: Sequence[tuple[str, str]]) -> None:
        super().__init__(message)
        self.asked, self.found = asked, found


class Code(NamedTuple):
    """A code of a column of a release's tables: `ITERATION_CODE`, `2001`."""

    column: str
    code: str

    @classmethod
    def nested(cls, level: str, codes: Iterable[str]) -> Code:
        """Return the code of a unit of a declaration's level: those of the levels above it and its own."""
        return cls(level, "/".join(code.replace("~", "~7e").replace("/", "~2f") for code in codes))


def words_of(text: str) -> list[str]:
    """Return lower-case words without accents."""
    if not text.isascii():
        text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return text.casefold().replace(",", " ").split()


def matches(wanted: Sequence[str], text: str) -> bool:
    """Return whether each wanted word is the start of a word of a text."""
    if not wanted:
        return True
    words = words_of(text)
    return all(any(word.startswith(want) for word in words) for want in wanted)


class Vocabulary:
    """The words of all names that a search knows."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = sorted({word for text in texts for word in words_of(text)})

    def corrected(self, text: str) -> str:
        """Return a query with the closest known word for each unknown one; "" if all are known, or one has no match.

        A word with a digit is a code and does not change; SMALL words are dropped.
        """
        found = [self._nearest(word) for word in words_of(text)]
        if None in found or found == words_of(text):
            return ""
        return " ".join(word for word in found if word is not None and word not in SMALL)

    def begins(self, word: str) -> bool:
        """Return whether a word is the start of a known one."""
        place = bisect_left(self._words, word)
        return place < len(self._words) and self._words[place].startswith(word)

    def _nearest(self, word: str) -> str | None:
        if self.begins(word) or word in SMALL or not word.isalpha():
            return word
        alike = [one for one in self._words if one[0] == word[0]]
        return next(iter(get_close_matches(word, alike, 1, ALIKE)), None)


class Index:
    """The index of a release for searches: regions, the larger kinds first, and codes, both with their names.

    others: returns regions that are found only by their code.
    """

    def __init__(
        self,
        regions: Mapping[Region, str],
        codes: Mapping[Code, str],
        others: Callable[[str], Sequence[Region]] = lambda _: (),
    ) -> None:
        self.regions, self.codes, self._others = regions, codes, others
        kinds = {kind: at for at, kind in enumerate(TITLES)}

        @cache
        def own(region: Region) -> str:
            return " " + " ".join(words_of(regions[region]))

        @cache
        def above(region: Region | None) -> str:
            if region is None or region.type == "USA":
                return ""
            return (own(region) if region in regions else "") + above(region.parent)

        rank = {region: kinds.get(region.type.removeprefix("PR-"), len(kinds)) for region in regions}
        self.listed = sorted(regions, key=lambda region: (rank[region], region))
        self._texts = {region: (own(region), above(region.parent)) for region in self.listed}
        self._types = {region.type for region in self.listed}

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of all names."""
        return Vocabulary([*(name for name, _ in self._texts.values()), *self.codes.values()])

    def regions_named(self, text: str) -> list[Region]:
        """Return regions by TYPE/ID or id, else by exact name, else by words of its own or its containers' names."""
        text = text.strip()
        kind, _, number = text.partition("/")
        if (named := Region(kind.upper(), number)) in self._texts:
            return [named]
        if by_id := [named for kind in sorted(self._types) if (named := Region(kind, text)) in self._texts]:
            return by_id
        if others := list(self._others(text)):
            return others
        wanted = words_of(text)
        if not wanted or not all(map(self.vocabulary.begins, wanted)):  # cheaper than comparing a nation's names
            return []
        first, *rest = (f" {word}" for word in wanted)
        texts = self._texts.items()
        own = [region for region, (name, _) in texts if first in name and all(start in name for start in rest)]
        if own:
            called = " " + " ".join(wanted)
            return [region for region in own if self._texts[region][0] == called] or own
        return [
            region
            for region, (name, above) in texts
            if (first in name or first in above) and all(start in name or start in above for start in rest)
        ]

    def codes_named(self, text: str) -> list[Code]:
        """Return codes by code or its end, else by exact name, else by words of their names, `text alone` first."""
        text = text.strip()
        ends = (one for one in self.codes if one.code.endswith(f"/{text}"))
        if text and (found := [one for one in self.codes if one.code == text] or [*ends]):
            return found
        wanted = words_of(text)
        if not wanted:
            return []
        names = {one: words_of(name) for one, name in self.codes.items() if matches(wanted, f"{one.code} {name}")}
        exact = [one for one, name in names.items() if name == wanted]
        return exact or sorted(names, key=lambda one: names[one][: len(wanted) + 1] != [*wanted, "alone"])

    def pairs_named(self, text: str) -> tuple[list[tuple[Region, Code]], int]:
        """Return the first pairs of a query for a region and a code, in either order, and their number."""
        wanted = [word for word in words_of(text) if word not in SMALL][:MOST_WORDS]
        for cut in range(1, len(wanted)):
            for of_region, of_code in ((wanted[cut:], wanted[:cut]), (wanted[:cut], wanted[cut:])):
                codes = self.codes_named(" ".join(of_code))
                regions = self.regions_named(" ".join(of_region)) if codes else []
                if regions:
                    first = [(region, code) for region in regions[:FEW] for code in codes[:FEW]]
                    return first, len(regions) * len(codes)
        return [], 0

    def region(self, text: str) -> Region:
        """Return the only region that a text names. Raises NotThere with the closest ones; Several for several."""
        return self._only("region", text, self.regions_named, lambda one: (one.key, self.regions.get(one, "")))

    def code(self, text: str, what: str = "code") -> Code:
        """Return the only code that a text names. Raises NotThere with the closest or the first ones; Several."""
        return self._only(what, text, self.codes_named, lambda one: (one.code, self.codes[one]), list(self.codes))

    def _only(
        self,
        what: str,
        text: str,
        search: Callable[[str], Sequence[Found]],
        name: Callable[[Found], tuple[str, str]],
        known: Sequence[Found] = (),
    ) -> Found:
        found = search(text)
        if len(found) == 1:
            return found[0]
        if not found:
            nearest = search(self.vocabulary.corrected(text))
            first, how = (nearest, "nearest") if nearest else (known, f"it has {len(known):,}, among them")
            hint = f"; {how}: {'; '.join(' '.join(name(one)) for one in first[:FEW])}" if first else ""
            if not hint and not (self.regions or self.codes):
                hint = "; this release names its units by columns of its own: give --table, or open it without"
            raise NotThere(f"no {what} matches {text!r}{hint}")
        more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
        named = [name(one) for one in found[:FEW]]
        listed = "; ".join(map(" ".join, named))
        raise Several(f"several {what}s match {text!r}: {listed}{more}; give the code of one", text, named)


@dataclass(frozen=True)
class SearchResult:
    """A search result: its address, kind, code and name, the names around it, and for a group its count."""

    address: str
    kind: str
    code: str
    name: str
    within: str = ""
    count: str = ""


@dataclass(frozen=True)
class SearchResults:
    """The first results of one kind, with the words for one and for several."""

    one: str
    several: str
    total: int
    first: Sequence[SearchResult]


@dataclass(frozen=True, kw_only=True)
class FoundView(View):
    """The results of a search. nearest: the query that was used instead if the given one has no match."""

    query: str
    kinds: Sequence[SearchResults]
    nearest: str
    view: str = "find"

    def table(self) -> Table:
        """Return the results."""
        answers = [one for kind in self.kinds for one in kind.first]
        return ["KIND", "CODE", "NAME", "WITHIN"], [[one.kind, one.code, one.name, one.within] for one in answers]
