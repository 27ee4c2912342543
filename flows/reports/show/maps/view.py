"""A map as a view: the picture, and the same numbers as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import hypot
from typing import Any

from flows.reports.show.maps.drawing import RELATIVE_MARGINS, Classes, Drawing, MapRow, draw, quantile_classes
from flows.reports.show.tables.table import ReleaseTable, Sum
from flows.reports.show.tables.views import TableViews, as_options, chosen, is_mapped
from flows.reports.show.view import Links, NotThere, Page, Table, View, link, page_asked, page_of
from tasks.geography.regions import Region

BY = ("count", "share", "margin")
KEYS = {
    "count": "The area of a circle is the number of {subject}.",
    "share": "Colours are shares: {subject}, {whole}. Each class has about as many regions.",
    "margin": "Colours are margins of error as shares of the counts: the larger, the less certain the count.",
}
MOST_PLACES = 20_000  # regions on a map


@dataclass(frozen=True, kw_only=True)
class MapView(View):
    """A map with its table.

    of: the table's title. page: the regions with a count; missing: those without. by: the value that it shows;
    choices: other values, with addresses. table_address: the address of its rows. whole: what shares are taken of; key:
    what the sizes or colours show. among: the kind of a code that may be another whole, `iteration`; asked: the address
    to which the form for it adds its own; both may be empty.
    """

    of: str
    drawing: Drawing
    page: Page[MapRow]
    missing: Sequence[MapRow]
    by: str
    choices: Links
    table_address: str
    whole: str
    key: str
    margins: bool
    among: str
    asked: Mapping[str, str]
    view: str = "map"

    @property
    def is_whole(self) -> bool:
        """Whether all regions with a count are on this page."""
        return self.page.pages == 1

    def table(self) -> Table:
        """Return the regions."""
        columns = ["REGION_TYPE", "REGION_ID", "REGION_NAME", "COUNT", "MOE", "SHARE", "SHARE_MOE", "WHY"]
        rows: list[list[Any]] = [
            [row.type, row.id, row.name, row.count, row.margin, row.share, row.share_margin, row.why]
            for row in (*self.page.rows, *self.missing)
        ]
        return columns, rows


def map_view(pages: TableViews, table: ReleaseTable, asked: Mapping[str, str]) -> MapView:
    """Return the counts of a table by region as a map: by count, by share and by margin.

    Listed regions without a row are on it without a count. Shares are of all counts on the map or, with `of`, of
    another code of the column whose codes overlap. Raises NotThere if the counts may not be summed.
    """
    by, query = chosen(table, asked), asked.get("q", "")
    selection = table.select(by, query)
    if table.count is None or not is_mapped(table, pages.places) or table.overlap(selection):
        raise NotThere(table.overlap(selection) or "this table has no regions that a map can show")
    at = pages.confidence_in(asked)
    sums = table.sums_by_region(selection, at)
    regions = [*sums, *table.without_row(selection, by)]
    if len(regions) > MOST_PLACES:
        raise NotThere(f"{len(regions):,} regions are too many for a map: filter them")
    overlap = next((column for column in table.columns if column.overlap), None)
    whole, other = "of all those on the map", asked.get("of", "")
    wholes: dict[Region, Sum] | None = None
    if overlap and other:
        other = other if other in table.choices(overlap) else pages.index.code(other, overlap.title.lower()).code
        whole = f"among those of {table.words_of_code(overlap.name, other)} in each region"
        wholes = table.sums_by_region(table.select(by | {overlap.name: other}, query), at)
    everything = Sum(0, sum(one.total for one in sums.values()))

    def row(region: Region) -> MapRow:
        one = sums.get(region)
        codes = by | table.at(region)
        address = pages.links_of(table, codes).get(table.count.name if table.count else "")
        about = region.type, region.id, address or link(f"table/{table.resource.name}", **as_options(codes, query))
        if one is None:
            return MapRow(*about, pages.name(region), None, why=pages.why_missing(table, codes, at)[1])
        of = everything if wholes is None else wholes.get(region)
        if of is None or of.total <= 0:
            return MapRow(*about, pages.name(region), one.total, one.margin)
        share, margin = one.total / of.total, None
        if one.margin is not None and of.margin is not None:  # for two counts with independent noise, to first order
            margin = hypot(one.margin, share * of.margin) / of.total
        return MapRow(*about, pages.name(region), one.total, one.margin, share, margin)

    rows = sorted(map(row, regions), key=lambda one: (one.count is None, -(one.count or 0), one.id))
    counted = [one for one in rows if one.count is not None]
    shown, there = asked.get("by") or "count", [by for by in BY if any(one.value(by) is not None for one in rows)]
    if shown not in (*there, "count"):
        raise NotThere(f"a map by {shown!r} is not possible here; it is by {' or '.join(there)}")
    classes = {"margin": Classes(RELATIVE_MARGINS), "share": quantile_classes([one.share for one in rows if one.share])}
    options = as_options(by, query)
    address = partial(link, f"table-map/{table.resource.name}", **options, of=other)
    return MapView(
        title=pages.title_of(table, by, query),
        of=table.resource.title,
        reading=pages.reading_of(table, at),
        drawing=draw(
            rows,
            shown,
            pages.places,
            of_nation=len({one.id[:2] for one in rows}) > 1,
            classes=classes.get(shown),
            missing=next((one.why for one in rows if one.why), ""),
        ),
        page=page_of(len(counted), page_asked(asked), lambda part: counted[part]),
        missing=rows[len(counted) :],
        by=shown,
        choices=[(one, address(by=one)) for one in there],
        table_address=link(f"table/{table.resource.name}", **options),
        whole=whole,
        key=KEYS[shown].format(subject=table.count.unit, whole=whole),
        margins="margin" in there,
        among=overlap.title.lower() if overlap else "",
        asked={"view": f"table-map/{table.resource.name}", **options, "by": "share"} if overlap else {},
    )
