"""The picture of a release's first page: the largest counts of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from flows.reports.show.tables.table import ReleaseTable, Selection
from flows.reports.show.view import Confidence, link
from tasks.releases.description import Column
from tasks.releases.pages import number
from tasks.releases.pages.dots import Series, dots

DRAWN = 12  # counts
LONGEST = 44  # letters of a label


@dataclass(frozen=True)
class Picture:
    """Counts as points (`tasks.releases.pages.dots`), and the address of the rows that have them."""

    chart: Mapping[str, Any]
    address: str


def picture_of(table: ReleaseTable, at: Confidence) -> Picture:
    """Return the largest counts: by region, at the other codes of the largest count, if that leaves several rows."""
    assert table.count is not None
    count, place, names = table.count, table.place, [column.name for column in table.columns]
    kind = place.region[1:-1] if place else ""  # the column of its types, if it has one
    (largest,) = table.rows(Selection(), "", slice(0, 1), at)
    other = [one.name for one in table.keys if place and one.name not in (place.name, kind)]
    by = {name: str(code) for name, code in zip(names, largest, strict=True) if name in other}
    if (rows := table.number(table.select(by))) == 1:
        by, rows = {}, table.number(Selection())
    drawn = [dict(zip(names, row, strict=True)) for row in table.rows(table.select(by), "", slice(0, DRAWN), at)]
    of_row = [one for one in table.keys if one.name != kind and one.name in (table.resource.key or names)]
    apart = [one for one in of_row if len({codes[one.name] for codes in drawn}) > 1]

    def words(columns: Sequence[Column], codes: Mapping[str, Any]) -> list[str]:
        named = [(one, str(codes[one.name]), codes.get(one.names)) for one in columns]
        found = [(one, code, name or table.words_of_code(one.name, code)) for one, code, name in named]
        return [
            f"{one.title} {code}" if word == code and " " not in code and one != place else word
            for one, code, word in found
        ]

    def row(codes: Mapping[str, Any]) -> dict[str, str]:
        name = shorten(", ".join(words(apart, codes)), LONGEST, placeholder=" …")
        return {"name": name, "note": number(round(codes[drawn_as.name] or 0))}

    common = words([one for one in of_row if one not in apart], drawn[0])
    margin, drawn_as, title = table.margin, count, ": ".join([table.resource.title, *common])
    if margin is None and (estimated := [one for one in table.columns if one.role in ("estimate", "margin")]):
        drawn_as, *margins = estimated
        margin = next(iter(margins), None)
    values, spread = [one[drawn_as.name] for one in drawn], [float(one[margin.name] or 0) for one in drawn if margin]
    which = f"the {len(drawn)} largest of {number(rows)}" if rows > len(drawn) else f"all {number(rows)}"
    what = "count" if drawn_as == count else drawn_as.title.lower()
    series = {f"{what}, with its margin" if margin else what: Series("circle", values, spread)}
    chart = dots(list(map(row, drawn)), series, count.unit, finding=f"{title}, {which}.")
    return Picture(chart, link(f"table/{table.resource.name}", **{f"by_{name}": code for name, code in by.items()}))
