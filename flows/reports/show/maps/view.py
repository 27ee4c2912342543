"""A map as a view: the picture, and the same numbers as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flows.reports.show.maps.boundaries import Places
from flows.reports.show.maps.drawing import RELATIVE_MARGINS, Classes, Drawing, Item, draw, quantile_classes
from flows.reports.show.view import NotThere, Page, Table, View, page_asked, page_of
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


def map_of(
    rows: Iterable[MapRow],
    places: Places,
    asked: Mapping[str, str],
    *,
    title: str,
    reading: str,
    of_nation: bool,
    missing: str,
    subject: str,
    whole: str,
    where: Sequence[tuple[str, str]],
    links: Callable[..., str] | None = None,
    choices: Sequence[tuple[str, Sequence[tuple[str, str, bool]]]] = (),
    form: Mapping[str, str] | None = None,
) -> MapView:
    """Return the map of some regions by what an address asks for: count (sizes), share or margin (classes of colour).

    missing: why a region has no count. links: returns the address of the map by another; None where it is by count
    alone. form: `asked` of the view. Raises NotThere where no region has a share, or a margin.
    """
    rows = sorted(rows, key=lambda row: (row.count is None, -(row.count or 0), row.id))
    by = (asked.get("by") if links else "") or "count"
    there = [one for one in BY if one == "count" or any(row.value(one) is not None for row in rows)]
    if by not in there:
        raise NotThere(f"a map by {by!r} is not possible here; it is by {' or '.join(there)}")
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
    return MapView(
        title=title,
        reading=reading,
        drawing=draw(items, places.points, places.shapes, of_nation=of_nation, classes=classes, missing=missing),
        page=page_of(len(rows), page_asked(asked), lambda shown: rows[shown]),
        choices=[*choices, *([("Map by", [(one, links(by=one), one == by) for one in there])] if links else [])],
        where=where,
        subject=subject,
        whole=whole,
        by=by,
        key=_key_of(by, subject, whole),
        margins="margin" in there,
        asked=form or {},
    )


def link(view: str, **options: str) -> str:
    """Return the address of a view with those options that are not empty."""
    return view + "".join(f"&{name}={value}" for name, value in options.items() if value)


def _key_of(by: str, subject: str, whole: str) -> str:
    """Return what sizes or colours show, in words."""
    return {
        "count": f"The area of a circle is the number of {subject}.",
        "share": f"Colours are shares: {subject}, {whole}. Each class has about as many regions.",
        "margin": "Colours are margins of error as shares of the counts: the larger, the less certain the count.",
    }[by]
