"""A map as a view: the picture, and the same numbers as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flows.reports.show.maps.classes import RELATIVE_MARGINS, Classes, quantile_classes
from flows.reports.show.maps.drawing import Drawing, Item, draw
from flows.reports.show.maps.places import Places
from flows.reports.show.paging import Page, page_of
from flows.reports.show.view import Table, View
from tasks.inputs.regions import Region

BY = ("count", "share", "margin")


@dataclass(frozen=True)
class MapRow:
    """A region of a map; count and what follows are None where nothing was published, or no margin is known.

    share: of the count in a whole, with its margin; relative: the margin as a share of the count. why: the reason why
    there is no count.
    """

    type: str
    id: str
    address: str
    name: str
    within: str
    count: int | None
    margin: float | None = None
    share: float | None = None
    share_margin: float | None = None
    why: str = ""

    @property
    def relative(self) -> float | None:
        """The margin as a share of the count; infinite for a count of 0 or less."""
        if self.count is None or self.margin is None:
            return None
        return self.margin / self.count if self.count > 0 else float("inf")

    def value(self, by: str) -> float | None:
        """Return what a map shows of it."""
        return {"count": self.count, "share": self.share, "margin": self.relative}[by]

    @property
    def words(self) -> str:
        """The region and its values in a line."""
        if self.count is None:
            return f"{self.name}: {self.why}"
        words = f"{self.name}: {self.count:,}" + (f" ± {self.margin:,.12g}" if self.margin is not None else "")
        return words + (f", {100 * self.share:.3g}%" if self.share is not None else "")


@dataclass(frozen=True, kw_only=True)
class MapView(View):
    """A map with its table.

    choices: headings with links (words, address, whether chosen); where: links (words, address) to what it is of;
    subject: what is counted; whole: that of which a share is; key: what the sizes or colours show. asked: the address
    to which the form for another whole adds its own; empty where there is none.
    """

    drawing: Drawing
    page: Page[MapRow]
    choices: Sequence[tuple[str, Sequence[tuple[str, str, bool]]]]
    where: Sequence[tuple[str, str]]
    subject: str
    whole: str
    by: str
    key: str
    margins: bool
    asked: Mapping[str, str] = field(default_factory=dict)
    view: str = "map"

    def table(self) -> Table:
        """Return the regions."""
        columns = ["REGION_TYPE", "REGION_ID", "REGION_NAME", "WITHIN", "COUNT", "MOE", "SHARE", "SHARE_MOE", "WHY"]
        rows: list[list[Any]] = [
            [row.type, row.id, row.name, row.within, row.count, row.margin, row.share, row.share_margin, row.why]
            for row in self.page.rows
        ]
        return columns, rows


def drawing_of(rows: Sequence[MapRow], places: Places, by: str, *, of_nation: bool, missing: str) -> Drawing:
    """Draw the rows of a map by count (sizes), share or margin (classes of colour)."""
    classes = None
    if by == "margin":
        classes = Classes(RELATIVE_MARGINS)
    elif by == "share":
        classes = quantile_classes([row.share for row in rows if row.share is not None])

    def item(row: MapRow) -> Item:
        value = row.value(by)
        class_ = classes.of(value) if classes and value is not None else None
        return Item(Region(row.type, row.id), row.address, row.name, row.words, value, class_)

    items = [item(row) for row in rows]
    return draw(items, places.points, places.shapes, of_nation=of_nation, classes=classes, missing=missing)


def link(view: str, **options: str) -> str:
    """Return the address of a view with those options that are not empty."""
    return view + "".join(f"&{name}={value}" for name, value in options.items() if value)


def page_of_rows(rows: Sequence[MapRow], number: int) -> Page[MapRow]:
    """Return a page of a map's table."""
    return page_of(len(rows), number, lambda shown: rows[shown])


def key_of(by: str, subject: str, whole: str) -> str:
    """Return what sizes or colours show, in words."""
    return {
        "count": f"The area of a circle is the number of {subject}.",
        "share": f"Colours are shares: {subject}, {whole}. Each class has about as many regions.",
        "margin": "Colours are margins of error as shares of the counts: the larger, the less certain the count.",
    }[by]
