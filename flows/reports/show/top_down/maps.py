"""Maps of a TopDown release: the geounits of a level by total, voting age, Hispanic origin and race."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from flows.reports.show.confidence import caveat
from flows.reports.show.geography import STATES, capitalized
from flows.reports.show.maps.boundaries import Places
from flows.reports.show.maps.view import MapRow, MapView, link, map_of
from flows.reports.show.top_down.geounits import US, Geounit, title_of
from flows.reports.show.top_down.release import TopDownRelease
from flows.reports.show.view import NotThere
from spine.counts import Count
from spine.top_down import PERSONS, UNITS
from tasks.top_down.run_plan import ProductName

_RACES = [count for count in PERSONS.counts if count.quantity == "race"]
SUBJECTS: dict[str, tuple[ProductName, Count]] = {  # what a map counts, by its name in addresses: product and count
    "persons": ("persons", PERSONS.count("total")),
    "adults": ("persons", PERSONS.count("voting age")),
    "hispanic": ("persons", PERSONS.count("Hispanic")),
    **{f"race{at}": ("persons", race) for at, race in enumerate(_RACES[:-1])},
    "races": ("persons", _RACES[-1]),
    "units": ("units", UNITS.count("total")),
    "occupied": ("units", UNITS.count("occupied")),
}
READING = "Counts result from noisy answers. A map of small geounits shows mostly noise."
WHOLE = {"persons", "units"}  # subjects whose share is of the containing geounit's; of others, of a geounit's whole


def geounit_map(
    release: TopDownRelease, places: Places, kind: str, level: str, state: str, asked: Mapping[str, str]
) -> MapView:
    """Return the map of the geounits of a level, in the nation (`state` US), a state or, with `in`, a geounit of it."""
    offered = {name: count for name, (product, count) in SUBJECTS.items() if product in release.products_of(kind)}
    subject, within = asked.get("of") or next(iter(offered)), asked.get("in", "")
    states = [one for one in release.states if state in (US, one) and release.is_listed(kind, level, one)]
    if not states or subject not in offered or not mapped(places, kind, level, states[0]):
        raise NotThere(f"map/{kind}/{level}/{state} of {subject} is not a map of this release")
    words, levels = offered[subject].words, title_of(level, several=True)
    place = "the nation" if state == US else STATES.get(state, state)
    place += f", {within}" if within not in ("", state) else ""
    whole = f"among all {SUBJECTS[subject][0]} of each {title_of(level)}"
    around, by = {"in": within}, asked.get("by", "").replace("margin", "")  # which other subjects lack
    shown = partial(link, f"map/{kind}/{level}/{state}", **around)
    return map_of(
        _rows(release, kind, level, states, within, subject),
        places,
        asked,
        title=f"{capitalized(words)}, {levels} of {place}",
        reading=caveat(release.manifest, READING),
        of_nation=state == US,
        missing="nobody is counted",
        subject=words,
        whole="of all those on the map" if subject in WHOLE else whole,
        where=[(place, "overview" if state == US else link(f"listing/{kind}/{level}/{state}", **around))],
        links=partial(shown, of=subject),
        choices=[("Map of", [(one.words, shown(of=name, by=by), name == subject) for name, one in offered.items()])],
    )


def mapped(places: Places, kind: str, level: str, state: str) -> bool:
    """Return whether a map can show the geounits of a level."""
    region = Geounit(kind, level, state, state).region
    return region is not None and region.type in places.types


def _rows(
    release: TopDownRelease, kind: str, level: str, states: list[str], within: str, subject: str
) -> Iterator[MapRow]:
    product, count = SUBJECTS[subject]
    found = [
        (Geounit(kind, level, state, counted.code), counted)
        for state in states
        for counted in release.parts(kind, product, level, state, within, count)
    ]
    everybody = sum(counted.whole for _, counted in found)
    for geounit, counted in found:
        if (region := geounit.region) is None:
            continue
        whole = everybody if subject in WHOLE else counted.whole
        yield MapRow(
            type=region.type,
            id=region.id,
            address=f"geounit/{geounit.key}",
            name=release.name(geounit),
            within="",
            count=counted.part,
            margin=counted.margin if subject == "persons" else None,
            share=counted.part / whole if whole > 0 else None,
        )
