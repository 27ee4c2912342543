"""Pictures of an accuracy report: errors against margins by level, and what estimates buy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from tasks.detailed_dhca.accuracy.errors import TOTAL
from tasks.detailed_dhca.accuracy.report import ALL, COUNT_OF, TABLES, WORKLOADS, Report, in_words
from tasks.detailed_dhca.details import TOTAL_ONLY
from tasks.pages.dots import Series, dots
from tasks.population_groups.levels import ITERATION_LEVEL_NAMES, NATION_STATE

MARKS = dict(zip(WORKLOADS, ("circle", "square", "diamond", "triangle", "cross"), strict=True))
UNIT = "persons (a step to the right is ten times as many)"


def error_chart(report: Report) -> dict[str, Any]:
    """Draw by level the stated margin of a measured count, and 95% of the errors of each table's counts."""
    found = pd.DataFrame(in_words(report.summary())).sort_values("COUNTS")
    levels = [str(level) for level in dict.fromkeys(row["LEVEL"] for row in in_words(report.summary()))]
    by = found.drop_duplicates(["LEVEL", "WORKLOAD"], keep="last").set_index(["LEVEL", "WORKLOAD"])
    tables = [name for name in WORKLOADS if name in set(found["WORKLOAD"])]

    def values(column: str, table: str) -> list[float | None]:
        return [float(by[column][level, table]) if (level, table) in by.index else None for level in levels]

    margins = by["MOE"].groupby("LEVEL").max()
    series = {f"95% of errors of {TABLES[name]}": Series(MARKS[name], values("ERROR_95", name)) for name in tables}
    series |= {"stated margin": Series("bar", [float(margins[level]) for level in levels])}
    counts = int(found["COUNTS"].sum())
    inside = round((found["COUNTS"] * found["COVERAGE"]).sum())
    finding = f"{inside:,} of {counts:,} measured counts are within their stated margin."
    return dots([{"name": level} for level in levels], series, UNIT, finding=finding)


def gain_chart(report: Report) -> dict[str, Any]:
    """Draw the error of totals as counts and as estimates, a row for each kind of level and table."""
    rows = list(_by_kind(report.gains()))
    counts, estimates = [count for _, count, _ in rows], [estimate for *_, estimate in rows]
    better = sum(estimate < count for _, count, estimate in rows)
    several = report.accuracy.runs > 1  # one run's difference may be chance
    shown = [
        {
            "name": name,
            "note": f"{round(100 * (estimate / count - 1)):+d}%".replace("-", "−") if several and count else "",
        }
        for name, count, estimate in rows
    ]
    return dots(
        shown,
        {
            "count, as SafeTab-P publishes it": Series("ring", counts),
            "estimate, at the same privacy loss": Series("circle", estimates),
        },
        f"root mean square error of a published total, {UNIT}",
        least=0.01,
        finding=f"Estimates are nearer to the truth than counts in {better} of {len(rows)} kinds of published totals.",
    )


def _by_kind(gains: pd.DataFrame) -> Iterator[tuple[str, float, float]]:
    """Yield the root mean square errors over the levels of a granularity and iteration level, by kind and table."""
    rows = gains[(gains["COUNT_OF"] == COUNT_OF[TOTAL]) & (gains["WORKLOAD"] != WORKLOADS[TOTAL_ONLY])]
    places = rows["REGION_TYPE"].isin(NATION_STATE).map({True: "nation, state", False: "below state"})
    order = rows["WORKLOAD"].map(WORKLOADS.index)
    for key, part in rows.groupby([-rows["ITERATION_LEVEL"], places, order]):
        level, place, table = map(str, key)
        count, estimate = (
            ((part[f"RMSE_{one}"] ** 2 * part[f"COUNTS_{one}"]).sum() / part[f"COUNTS_{one}"].sum()) ** 0.5
            for one in ("COUNT", "ESTIMATE")
        )
        words = TABLES[WORKLOADS[int(table)]]
        yield f"{ITERATION_LEVEL_NAMES[-int(level)]}, {place}: {words}", float(count), float(estimate)


def by_size(report: Report) -> list[dict[str, Any]]:
    """Return what becomes of groups below the state by true size, and how far their published counts are off."""
    groups, errors = (table[~table["REGION_TYPE"].isin(NATION_STATE)] for table in (report.workloads, report.errors))
    errors = errors[errors["MEASURED"] & (errors["OF"] == "count") & (errors["SIZE"] != ALL)]
    found = []
    for size, part in groups[groups["SIZE"] != ALL].groupby("SIZE"):
        own, number = errors[errors["SIZE"] == size], part["GROUPS"].sum()
        counts = own["COUNTS"].sum()
        shares = {name: (part[name] * part["GROUPS"]).sum() / number for name in (*WORKLOADS, "SUPPRESSED")}
        means = {name: (own[name] * own["COUNTS"]).sum() / counts if counts else None for name in ("BIAS", "COVERAGE")}
        found.append(
            {
                "size": str(size),
                "groups": f"{number:,}",
                "suppressed": f"{shares['SUPPRESSED']:.1%}",
                **{TABLES[name]: f"{shares[name]:.1%}" for name in WORKLOADS[:-1]},
                "counts": f"{counts:,}",
                "within the margin": "" if means["COVERAGE"] is None else f"{means['COVERAGE']:.1%}",
                "bias": "" if means["BIAS"] is None else f"{means['BIAS']:+z.2f}",
            }
        )
    return sorted(found, key=lambda row: int(row["size"].rpartition("-")[2]))
