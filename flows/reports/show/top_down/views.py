"""Make the views of a TopDown release."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from flows.reports.show import search
from flows.reports.show.confidence import caveat, confidence, deviations
from flows.reports.show.geography import STATES, capitalized
from flows.reports.show.search import FOUND, Answer, Answers, FoundView, Vocabulary, matches, words_of
from flows.reports.show.top_down.geounits import GEOUNIT_KINDS, OFF_SPINE, TABULATION, Geounit, title_of
from flows.reports.show.top_down.records import GeounitTotals
from flows.reports.show.top_down.release import TOTALS, TopDownRelease
from flows.reports.show.top_down.tables import NAMES, OF_PRODUCT, tables_of
from flows.reports.show.top_down.view_models import GeounitItem, GeounitView, Listing, Redistricting, SpineLevelRow
from flows.reports.show.view import NotThere, limit, page_of, spend_facts

NO_MARGIN = (
    "A TopDown count has no margin of error: it results from many noisy answers by least squares, the bound at 0, the "
    "sums from level to level and rounding, and the law of its error is not known."
)
ANSWERS = (
    " das tda areas makes unbiased estimates with standard errors and intervals, of any areas, from the noisy answers."
)
WITH_MARGINS = (
    "A margin is 1.96 standard errors of the unbiased estimate from all noisy answers. On synthetic data about 95 of "
    "100 released counts, or more, were within their margin. Where that would not hold there is no margin, and its "
    "place says why: the area cuts block groups of the spine, or the count is of group quarters or of another kind "
    "that 1.96 standard errors do not cover."
)
OUTSIDE = (
    "is outside the interval of its estimate. Use the released count for this area alone: it counts nobody below zero "
    "and adds up, and on synthetic data such counts were nearer to the truth on average. In a sum of many areas use "
    "the estimates: their errors average out, the bias of released counts does not."
)
CAVEATS = {
    "overview": "Counts add up exactly from blocks to the nation, because the estimation enforces it. That does not "
    "mean that they are accurate: small counts are too high on average, since no count can be negative.",
    "geounit": "Everything except declared counts was estimated from noisy answers. A count of a few persons is mostly "
    "noise; use blocks only in sums of many.",
    "find": "The release contains every geounit listed here. Codes must be complete: 5 digits for a county, 11 for a "
    "tract, 15 for a block.",
}
SORTS = {"": """coalesce("persons", "housing units") DESC, code""", "code": "code"}


def overview(release: TopDownRelease) -> Redistricting:
    """Return the release as a whole: its states, its spine with the noise of each level, its privacy loss."""
    manifest = release.manifest
    area = "Puerto Rico" if manifest["region"] == "PR" else "United States"
    facts = [
        ("spine", manifest["spine"]["kind"]),
        ("estimator", manifest["options"].get("estimator", "topdown")),
        ("states", f"{len(release.states)}"),
    ]
    facts += spend_facts(manifest)
    if "ESTIMATE" in manifest:
        facts.append(("estimated from published measurements", manifest["ESTIMATE"]))
    states = [row for state in release.states for row in release.rows("tabulation", "State", state)]
    return Redistricting(
        title=f"Redistricting data, {area}",
        reading=caveat(manifest, CAVEATS["overview"]),
        margin=describe_margins(release, given=release.has_margins),
        answers=release.has_answers,
        states=[present_totals(release, row) for row in states],
        columns=[name for names in TOTALS.values() for name in names],
        levels=list(_levels(release)),
        entities=[title_of(family, several=True) for family in release.levels("entities")],
        facts=facts,
        statements=[
            (name, words)
            for name, words in manifest["statements"].items()
            if name != "not_solved" or any(facts.get("failed") for facts in manifest["products"].values())
        ],
    )


def _levels(release: TopDownRelease) -> Iterator[SpineLevelRow]:
    for product, facts in release.manifest["products"].items():
        query = "total" if product == "persons" else "detailed"
        for level, number in facts["geounits"].items():
            noise = [
                row["variance"] ** 0.5
                for row in facts.get("noise", ())
                if (row["level"], row["query"]) == (level, query)
            ]
            words = title_of(level, several=True)
            yield SpineLevelRow(product, words, number, query, min(noise, default=None), max(noise, default=None))


def geounit(release: TopDownRelease, geounit: Geounit, table: str = "") -> GeounitView:
    """Return a geounit: all tables or one, the geounits around it, and on a spine its noisy answers."""
    if not release.exists(geounit):
        raise NotThere(f"{geounit.key} is not a geounit of this release")
    declared, margins = release.declared(geounit), release.margins(geounit)
    offered = [name for product in release.products_of(geounit.kind) for name in OF_PRODUCT[product]]
    if table and table not in offered:
        raise NotThere(f"{table!r} is not a table of this geounit; it has {', '.join(offered)}")
    tables = [
        one
        for product in release.products_of(geounit.kind)
        for one in tables_of(product, release.cells(geounit, product), declared, margins)
        if one.name == table or (not table and one.name != "races")
    ]
    totals = release.totals(geounit)
    return GeounitView(
        title=release.name(geounit),
        reading=caveat(release.manifest, CAVEATS["geounit"]),
        margin=describe_margins(release, given=bool(margins)),
        geounit=present_geounit(release, geounit),
        totals=present_totals(release, totals),
        above=[present_geounit(release, one) for one in release.above(geounit)],
        same=[present_geounit(release, one) for one in release.on_spine(geounit)],
        inside=[(heading, lists) for heading, lists in _inside(release, geounit) if lists],
        tables=tables,
        choices=[(name, NAMES[name]) for name in offered],
        chosen=table,
        answers=release.answers(geounit),
        margins=margins,
        outside=OUTSIDE if any(one.outside for one in margins) else "",
    )


def _inside(release: TopDownRelease, geounit: Geounit) -> Iterator[tuple[str, list[tuple[str, int, str]]]]:
    """Yield headings with the lists within a geounit; for a state also its entities and both spines."""

    def described(kind: str, level: str, within: str = "") -> tuple[str, int, str]:
        address = f"listing/{kind}/{level}/{geounit.state}" + (f"&in={within}" if within else "")
        number = release.number(kind, level, geounit.state, within)
        return title_of(level, several=number != 1), number, address

    if geounit.nation:
        yield "In it", [("states", len(release.states), "overview")]
        return
    yield "In it", [described(geounit.kind, level, geounit.code) for level in release.levels_inside(geounit)]
    if (geounit.kind, geounit.level) == ("tabulation", "State"):
        families = [one for one in release.levels("entities") if release.is_listed("entities", one, geounit.state)]
        yield "Off the spine", [described("entities", family) for family in families]
        for product in release.products:
            kind = f"spine_{product}"
            yield f"On the spine of {product}", [described(kind, level) for level in release.levels(kind)]


def listing(
    release: TopDownRelease, kind: str, level: str, state: str, within: str = "", sort: str = "", page: int = 1
) -> Listing:
    """Return the geounits of a level in a state, or in one of its geounits; the largest first, or by code."""
    if kind not in release.kinds or level not in release.levels(kind) or not release.is_listed(kind, level, state):
        raise NotThere(f"{kind}/{level}/{state} is not a list of this release")
    sort = "code" if sort == "code" else ""
    inside = _within(release, kind, state, within)
    place = release.name(inside) if inside else STATES.get(state, state)
    words = capitalized(title_of(level, several=True))
    products = release.products_of(kind)
    margins = release.has_margins_of(kind, level, state)

    def read(shown: slice) -> list[GeounitTotals[GeounitItem]]:
        starts = "starts_with({code}, ?)"
        rows = release.rows(kind, level, state, starts, [within], order=SORTS[sort], part=limit(shown))
        return [present_totals(release, row) for row in rows]

    return Listing(
        title=f"{words}, {place}" + (f" (spine of {products[0]})" if "spine_" in kind else ""),
        reading=caveat(release.manifest, CAVEATS["geounit"]),
        margin=describe_margins(release, given=margins),
        page=page_of(release.number(kind, level, state, within), page, read),
        sort=sort,
        within=present_geounit(release, inside) if inside else None,
        columns=[name for product, names in TOTALS.items() if product in products for name in names],
        margins=margins,
        codes=kind == "entities",
    )


def _within(release: TopDownRelease, kind: str, state: str, code: str) -> Geounit | None:
    """Return the geounit of a kind by its code; the state where there is no code."""
    if not code:
        return Geounit("tabulation", "State", state, state)
    for level in release.levels(kind):
        one = Geounit(kind, level, state, code)
        if release.width(one) == len(code) and release.exists(one):
            return one
    return None


def find(release: TopDownRelease, query: str) -> FoundView:
    """Return the geounits whose name or code matches a query."""

    def answers(query: str) -> list[Answers]:
        found = geounits_named(release, query)
        items = [present_geounit(release, one) for one in found[:FOUND]]
        first = [Answer(f"geounit/{one.key}", f"{one.level}, {one.kind}", one.code, one.name) for one in items]
        return [Answers("geounit", "geounits", len(found), first)]

    return search.find(query, CAVEATS["find"], vocabulary_of(release), answers)


def geounits_named(release: TopDownRelease, text: str) -> list[Geounit]:
    """Return geounits by code or address, else by name: of exactly this name, else of every word."""
    text = text.strip()
    if text.count("/") == 3 and release.exists(one := Geounit(*text.split("/"))):
        return [one]
    if text.isdecimal():
        return list(_of_code(release, text))
    wanted = words_of(text)
    if not wanted:
        return []
    candidates = [Geounit("tabulation", "State", state, state) for state in release.states]
    candidates += [release.top] if release.nation else []
    candidates += _named(release)
    found = [one for one in candidates if matches(wanted, f"{release.name(one)} {STATES.get(one.state, '')}")]
    own = [one for one in found if matches(wanted, release.name(one))]
    exact = [one for one in own if words_of(release.name(one)) == wanted]
    return [one for one in exact or own or found if release.exists(one)]


@lru_cache(maxsize=2)
def vocabulary_of(release: TopDownRelease) -> Vocabulary:
    """Return the words of the names of a release's geounits."""
    states = [STATES[state] for state in release.states if state in STATES]
    return Vocabulary([*states, *(release.name(one) for one in _named(release))])


def _of_code(release: TopDownRelease, code: str) -> Iterator[Geounit]:
    levels = [("tabulation", level, width) for level, width in TABULATION.items()]
    levels += [("entities", level, OFF_SPINE[level]) for level in release.levels("entities")]
    for kind, level, width in levels:
        if len(code) == width:
            states = release.states if level == "aian" else [code[:2]]
            yield from (one for state in states if release.exists(one := Geounit(kind, level, state, code)))
    for kind in release.kinds:
        for level in release.levels(kind) if kind.startswith("spine") else ():
            one = Geounit(kind, level, code[1:3], code)
            if one.state in release.states and release.width(one) == len(code) and release.exists(one):
                yield one


def _named(release: TopDownRelease) -> Iterator[Geounit]:
    """Yield the geounits in files of names, whether the release has them or not."""
    levels = {"COUNTY": ("tabulation", "County"), "TRACT": ("tabulation", "Tract"), "PLACE": ("entities", "place")}
    levels |= {"COUSUB": ("entities", "mcd"), "AIANNH": ("entities", "aian")}
    for region in release.names:
        if found := levels.get(region.type.removeprefix("PR-")):
            states = release.states if region.type == "AIANNH" else [region.id[:2]]
            yield from (Geounit(*found, state, region.id) for state in states if state in release.states)


# -- in words ---------------------------------------------------------------------------------------------------------


def present_geounit(release: TopDownRelease, geounit: Geounit) -> GeounitItem:
    """Return the row of a geounit."""
    code = "" if geounit.nation else geounit.code
    return GeounitItem(geounit.key, release.name(geounit), GEOUNIT_KINDS[geounit.kind], title_of(geounit.level), code)


def present_totals(release: TopDownRelease, row: GeounitTotals[Geounit]) -> GeounitTotals[GeounitItem]:
    """Return the row of a geounit with its sums."""
    return GeounitTotals(present_geounit(release, row.geounit), row.sums, row.margin)


def describe_margins(release: TopDownRelease, *, given: bool) -> str:
    """Return a sentence on margins; `given`: whether counts of the view have one."""
    if "NOT_PRIVATE" in release.manifest:
        return ""
    if given and not confidence().is_released:
        return f"A margin is {deviations():.2f} standard errors of the unbiased estimate from all noisy answers."
    return WITH_MARGINS if given else NO_MARGIN + ANSWERS * release.has_answers
