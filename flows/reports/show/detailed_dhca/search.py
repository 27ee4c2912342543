"""Finding regions and iterations by name or code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeVar

from flows.reports.show.detailed_dhca.release import Release
from flows.reports.show.geography import Region
from flows.reports.show.release_pages import NotThere
from flows.reports.show.search import SMALL, matches, words_of

FEW = 8  # that a refusal names, and that either side of a group may mean
MOST_WORDS = 8  # of a text that means a group
Found = TypeVar("Found", Region, str)


def one_region(release: Release, text: str) -> Region:
    """Return the only region that a text means: TYPE/ID, an id, a name. Raises NotThere for none or several."""
    kind, _, number = text.partition("/")
    if (region := Region(kind.upper(), number)) in release.regions or region in release.names:
        return region
    return _only(
        regions_named(release, text),
        f"no region matches {text!r}" + ("" if release.names else "; --names gives regions their names"),
        f"several regions match {text!r}",
        lambda region: f"{region.key} {release.name(region)}",
    )


def one_iteration(release: Release, text: str) -> str:
    """Return the only iteration that a text means, by code or name. Raises NotThere where there is none, or several."""
    return _only(
        iterations_named(release, text),
        f"no iteration matches {text!r}",
        f"several iterations match {text!r}",
        lambda code: f"{code} {release.iterations[code].name}",
    )


def _only(found: Sequence[Found], none: str, several: str, name: Callable[[Found], str]) -> Found:
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotThere(none)
    more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
    raise NotThere(f"{several}: {'; '.join(map(name, found[:FEW]))}{more}")


def regions_named(release: Release, text: str) -> list[Region]:
    """Return regions by id, else by name: called exactly so, or holding every word, alone or with what they lie in."""
    text = text.strip()
    index = index_of(release)
    kind, _, number = text.partition("/")
    if (named := Region(kind.upper(), number)) in index.texts:
        return [named]
    if by_id := index.by_id.get(text):
        return by_id
    wanted = words_of(text)
    if not wanted:
        return []
    starts = [f" {word}" for word in wanted]
    own = [region for region, (name, _) in index.texts.items() if all(start in name for start in starts)]
    if own:
        called = " " + " ".join(wanted)
        return [region for region in own if index.texts[region][0] == called] or own
    return [region for region, (name, above) in index.texts.items() if all(start in name + above for start in starts)]


@dataclass(frozen=True)
class Index:
    """Regions by id, and the words of each: its own name's, and those of what it lies in; in the order of answers."""

    by_id: dict[str, list[Region]]
    texts: dict[Region, tuple[str, str]]


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
    by_id: dict[str, list[Region]] = {}
    for region in regions:
        by_id.setdefault(region.id, []).append(region)
    regions.sort(key=lambda region: (region not in release.regions, _size(region)))
    return Index(by_id, {region: (own(region), above(region.parent)) for region in regions})


def _size(region: Region) -> int:
    """Return how early a type of region is listed: nation, state, county, place, area, tract."""
    return ("USA", "STATE", "COUNTY", "PLACE", "AIANNH", "TRACT").index(region.type.removeprefix("PR-"))


def iterations_named(release: Release, text: str) -> list[str]:
    """Return iterations by code, else by name: those called exactly so, else those whose name holds every word."""
    text = text.strip()
    if text in release.iterations:
        return [text]
    wanted = words_of(text)
    if not wanted:
        return []
    found = [code for code, one in release.iterations.items() if matches(wanted, f"{code} {one.name}")]
    return [code for code in found if words_of(release.iterations[code].name) == wanted] or found


def groups_named(release: Release, text: str) -> list[tuple[Region, str]]:
    """Return the groups that a text means by a region and an iteration side by side, in either order."""
    wanted = [word for word in words_of(text) if word not in SMALL][:MOST_WORDS]
    for cut in range(1, len(wanted)):
        for of_region, of_iteration in ((wanted[cut:], wanted[:cut]), (wanted[:cut], wanted[cut:])):
            codes = iterations_named(release, " ".join(of_iteration))
            regions = regions_named(release, " ".join(of_region)) if codes else []
            if regions:
                return [(region, code) for region in regions[:FEW] for code in codes[:FEW]]
    return []
