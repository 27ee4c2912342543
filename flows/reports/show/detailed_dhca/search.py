"""Find regions and iterations of a Detailed DHC-A release by name or code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial

from flows.reports.show.detailed_dhca.release import Release
from flows.reports.show.geography import Region
from flows.reports.show.search import FEW, SMALL, Vocabulary, matches, only, words_of

MOST_WORDS = 8  # of a query for a group
ENDINGS = {"alone": "alone", "combination": "alone or in any combination"}  # of names, by the kind of the iteration


def one_region(release: Release, text: str) -> Region:
    """Return the only region that matches TYPE/ID, an id or a name. Raises NotThere for none or several."""
    kind, _, number = text.partition("/")
    if (region := Region(kind.upper(), number)) in release.regions or region in release.names:
        return region

    def named(region: Region) -> str:
        return f"{region.key} {release.name(region)}"

    return only(partial(regions_named, release), "region", text, named, index_of(release).vocabulary)


def one_iteration(release: Release, text: str, kind: str = "") -> str:
    """Return the only iteration that matches a code or a name, or the only one of a kind where several do.

    Raises NotThere for none or several.
    """
    if kind in ENDINGS and len(iterations_named(release, text)) > 1:
        alike = iterations_named(release, f"{text} {ENDINGS[kind]}")
        if len(alike) == 1:
            return alike[0]

    def named(code: str) -> str:
        return f"{code} {release.iterations[code].name}"

    return only(partial(iterations_named, release), "iteration", text, named, index_of(release).vocabulary)


def regions_named(release: Release, text: str) -> list[Region]:
    """Return regions by id, else by name: of exactly this name, else of every word, theirs or their container's."""
    text = text.strip()
    index = index_of(release)
    kind, _, number = text.partition("/")
    if (named := Region(kind.upper(), number)) in index.texts:
        return [named]
    if by_id := [named for kind in index.types if (named := Region(kind, text)) in index.texts]:
        return by_id
    wanted = words_of(text)
    if not wanted or not all(map(index.vocabulary.begins, wanted)):  # a look, in place of the names of a nation
        return []
    first, *others = (f" {word}" for word in wanted)
    own = [
        region for region, (name, _) in index.texts.items() if first in name and all(start in name for start in others)
    ]
    if own:
        called = " " + " ".join(wanted)
        return [region for region in own if index.texts[region][0] == called] or own
    return [
        region
        for region, (name, above) in index.texts.items()
        if (first in name or first in above) and all(start in name or start in above for start in others)
    ]


@dataclass(frozen=True)
class Index:
    """In the order of answers the words of each region: of its name, of what contains it.

    types: of the regions, sorted. iterations: their names.
    """

    types: tuple[str, ...]
    texts: dict[Region, tuple[str, str]]
    iterations: tuple[str, ...]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of all names."""
        return Vocabulary([*(name for name, _ in self.texts.values()), *self.iterations])


@lru_cache(maxsize=2)
def index_of(release: Release) -> Index:
    """Return the index of a release's regions; under a second for the nation's 120,000."""

    @cache
    def above(region: Region | None) -> str:
        if region is None or region.type == "USA":
            return ""
        return (own(region) if region in release.regions else "") + above(region.parent)

    def own(region: Region) -> str:
        return " " + " ".join(words_of(release.name(region)))

    regions = sorted({*release.regions, *release.names}, key=lambda region: (region.type, region.id))
    regions.sort(key=lambda region: (region not in release.regions, _size(region)))
    iterations = tuple(one.name for one in release.iterations.values())
    types = tuple(sorted({region.type for region in regions}))
    return Index(types, {region: (own(region), above(region.parent)) for region in regions}, iterations)


def _size(region: Region) -> int:
    """Return the rank of a region's type: nation, state, county, place, area, tract."""
    return ("USA", "STATE", "COUNTY", "PLACE", "AIANNH", "TRACT").index(region.type.removeprefix("PR-"))


def iterations_named(release: Release, text: str) -> list[str]:
    """Return iterations by code, else of exactly this name, else of every word, `text alone` first."""
    text = text.strip()
    if text in release.iterations:
        return [text]
    wanted = words_of(text)
    if not wanted:
        return []
    names = {
        code: words_of(one.name) for code, one in release.iterations.items() if matches(wanted, f"{code} {one.name}")
    }
    exact = [code for code, name in names.items() if name == wanted]
    return exact or sorted(names, key=lambda code: names[code][: len(wanted) + 1] != [*wanted, "alone"])


def groups_named(release: Release, text: str) -> tuple[list[tuple[Region, str]], int]:
    """Return the first groups of a query for a region and an iteration, in either order, and their number."""
    wanted = [word for word in words_of(text) if word not in SMALL][:MOST_WORDS]
    for cut in range(1, len(wanted)):
        for of_region, of_iteration in ((wanted[cut:], wanted[:cut]), (wanted[:cut], wanted[cut:])):
            codes = iterations_named(release, " ".join(of_iteration))
            regions = regions_named(release, " ".join(of_region)) if codes else []
            if regions:
                first = [(region, code) for region in regions[:FEW] for code in codes[:FEW]]
                return first, len(regions) * len(codes)
    return [], 0
