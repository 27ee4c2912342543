"""Describe the tables of estimates of areas, and round the ends of their intervals."""

from __future__ import annotations

from math import ceil, floor

from tasks.releases.description import Column, Description, Table, integer, number

AREA = Column("area", "text", "the name of the area")
UNIT = "persons or housing units"


def _ends(unit: str, kind: str, *levels: int) -> tuple[Column, ...]:
    return tuple(
        Column(f"{end}_{level}", unit, f"the {which} end of the interval at {level}%", type=kind)
        for level in levels
        for end, which in (("low", "lower"), ("high", "upper"))
    )


DESCRIPTION = Description(
    (
        Table(
            "Counts of areas",
            (
                AREA,
                Column("count", "text", "what is counted", overlap=True),
                Column("words", "text", "what is counted, in words"),
                integer("blocks", "blocks", "with living quarters"),
                integer("groups_whole", "block groups", "of the spine, that the area holds in full"),
                integer("groups_cut", "block groups", "of the spine, that the area holds in part"),
                integer("published", UNIT, "the sum of published counts; may be empty"),
                number("estimate", UNIT, "the unbiased estimate; may be negative", role="estimate"),
                number("standard_error", UNIT, "of the estimate", role="standard error", of="estimate"),
                *_ends(UNIT, "integer", 90, 95),
            ),
            text="areas.csv",
            delimiter=",",
            key=("area", "count"),
            dependent=True,
        ),
        Table(
            "Deviations of districts from their mean",
            (
                Column("district", "text", "the name of the district"),
                integer("published", "persons", "its published total; may be empty"),
                number("published_deviation", "persons", "that of its published total"),
                number("estimate", "persons", "the unbiased estimate of its total"),
                number("deviation", "persons", "of the estimate", role="estimate"),
                number("standard_error", "persons", "of the deviation", role="standard error"),
                *_ends("persons", "number", 95),
                number("percent", "percent", "the deviation, of the mean"),
                number("percent_standard_error", "percent", "its standard error, of the mean"),
            ),
            text="plan.csv",
            delimiter=",",
            key=("district",),
        ),
        Table(
            "Shares of the voting age population",
            (
                AREA,
                Column("group", "text", "a race, Hispanic persons included; Hispanic; or the minority", overlap=True),
                Column("words", "text", "the group in words"),
                number("published", "percent", "the share by published counts; empty without"),
                number("estimate", "percent", "a ratio of two estimates", role="estimate"),
                number("standard_error", "percent", "of the estimate", role="standard error"),
                *_ends("percent", "number", 95),
            ),
            text="shares.csv",
            delimiter=",",
            key=("area", "group"),
            dependent=True,
        ),
        Table(
            "Covariances of areas",
            (
                AREA,
                Column("other_area", "text", "the name of the other area, or of the same"),
                number("total", "persons, squared", "the covariance of the two totals"),
                number("voting age", "persons, squared", "of the two counts of voting age"),
            ),
            text="covariances.csv",
            delimiter=",",
            key=("area", "other_area"),
        ),
    )
)


def interval(estimate: float, error: float, z: float) -> tuple[int, int]:
    """Return the smallest and largest integer >= 0 within z standard errors; else the nearest."""
    low, high = ceil(estimate - z * error - 1e-6), floor(estimate + z * error + 1e-6)
    if low > high:
        low = high = round(estimate)
    return max(low, 0), max(high, 0)
