"""An accuracy report: errors.csv, workloads.csv and one page. Each is marked NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privacy.analyses.error_measures import Closeness, ErrorSums, quantile_95
from privacy.noise.margins import coverage
from tasks.errors import Refused
from tasks.releases.pages import render
from tasks.releases.pages.dots import Series, dots
from tasks.releases.pages.text_table import TextTable
from tasks.safetab.levels import NATION_STATE, Level
from tasks.safetab.persons.accuracy.errors import CELL, LARGEST, NOT_PUBLISHED, TOTAL, Accuracy
from tasks.safetab.persons.details import AGES, TABLE_NAMES, TOTAL_ONLY, WIDTHS, query_of

PAGE = "accuracy.html"
NOT_PRIVATE = "NOT_PRIVATE"
STATEMENT = (
    "NOT PRIVATE: these are exact errors of repeated runs on synthetic data. There is no such report for real data."
)
# By detail, in the CSV files.
WORKLOADS = ("Total", *(f"Sex x Age({len(bins)})" for bins in AGES.values()), "TotalOnly")
TABLES = dict(zip(WORKLOADS, (*TABLE_NAMES.values(), "TotalOnly"), strict=True))  # the same for people
MARKS = dict(zip(WORKLOADS, ("circle", "square", "diamond", "triangle", "cross"), strict=True))
COUNT_OF = ("table", "sex", "cell")  # by statistic
OF = ("count", "estimate")
ALL = "all"  # sizes
LEVEL = ["REGION_TYPE", "ITERATION_LEVEL"]
OF_LEVEL = {
    "level": "{LEVEL}",
    "table": "{TABLE}",
    "noise of": "{DONOR}",
    "share of groups": "{PROPORTION:.2%}",
    "counts": "{COUNTS:,}",
    "95% of errors within ±": "{ERROR_95:,}",
    "stated margin of error ±": "{MOE:,}",
    "within the margin": "{COVERAGE:.2%}",
    "the noise alone": "{NOISE_COVERAGE:.2%}",
    "bias": "{BIAS:+z.2f}",
    "RMSE": "{RMSE:.2f}",
    "suppressed in level": "{SUPPRESSED:.2%}",
}
OF_GAIN = {  # a count, then its estimate
    "level": "{LEVEL}",
    "table": "{TABLE}",
    "count of a": "{COUNT_OF}",
    "counts": "{COUNTS_COUNT:,}",
    "RMSE": "{RMSE_COUNT:.2f} → {RMSE_ESTIMATE:.2f}",
    "less by": "{GAIN:.1%}",
    "bias": "{BIAS_COUNT:+z.2f} → {BIAS_ESTIMATE:+z.2f}",
    "margin ±": "{MOE_COUNT:,} → {MOE_ESTIMATE:,}",
    "near a threshold ±": "{MOE_LARGEST_ESTIMATE:,}",
    "within the margin": "{COVERAGE_COUNT:.2%} → {COVERAGE_ESTIMATE:.2%}",
}
COMPARED = ["COUNTS", "MOE", "MOE_LARGEST", "COVERAGE", "BIAS", "RMSE"]


@dataclass(frozen=True)
class Report:
    """The two tables of an accuracy report (`error_table`, `workload_table`)."""

    accuracy: Accuracy
    errors: pd.DataFrame
    workloads: pd.DataFrame

    def summary(self) -> list[dict[Any, Any]]:
        """Return a row for each level and workload, over all sizes: errors of measured counts, share of groups."""
        chosen = (self.errors["SIZE"] == ALL) & self.errors["MEASURED"] & (self.errors["OF"] == OF[0])
        joined = self.errors[chosen].merge(self.workloads, on=[*LEVEL, "SIZE", NOT_PRIVATE])
        joined["PROPORTION"] = [row[row["WORKLOAD"]] for row in joined.to_dict("records")]
        return joined.drop(columns=[*WORKLOADS, "SIZE", "MEASURED"]).to_dict("records")

    def gains(self) -> pd.DataFrame:
        """Return counts and estimates side by side, over all sizes, by level, workload and kind of count. May be empty.

        GAIN is the relative reduction of the root mean square error. Coterminous recipients are left out: they have
        their donors' errors.
        """
        chosen = (self.errors["SIZE"] == ALL) & (self.errors["NOISE_OF"] == self.errors["REGION_TYPE"])
        errors = self.errors[chosen].set_index([*LEVEL, "WORKLOAD", "COUNT_OF"])
        count, estimate = (errors[errors["OF"] == quantity][COMPARED] for quantity in OF)
        joined = count.add_suffix("_COUNT").join(estimate.add_suffix("_ESTIMATE"), how="inner").reset_index()
        joined["GAIN"] = 1 - joined["RMSE_ESTIMATE"] / joined["RMSE_COUNT"]
        return joined

    def tables(self) -> list[TextTable]:
        """Return the main tables: errors by level and workload and, if there are estimates, what they gain."""
        levels = TextTable.filled("Errors by level and table", OF_LEVEL, in_words(self.summary()), words=3)
        if (gains := self.gains()).empty:
            return [levels]
        rows = in_words(gains.to_dict("records"))
        return [levels, TextTable.filled("Counts and estimates (count → estimate)", OF_GAIN, rows, words=3)]


def make_report(accuracy: Accuracy) -> Report:
    """Tabulate the errors of the repetitions. Raises Refused if they published nothing."""
    if not (accuracy.errors["detail"] != NOT_PUBLISHED).any():
        raise Refused("no run published a single count: there are no errors to report")
    return Report(accuracy, error_table(accuracy), workload_table(accuracy))


def write_report(out: Path, report: Report, about: Mapping[str, str], where: str) -> None:
    """Write the tables and the page into OUT; `about` describes the run, `where` names its states."""
    out.mkdir(parents=True)
    for name, table in {"errors.csv": report.errors, "workloads.csv": report.workloads}.items():
        table.to_csv(out / name, index=False, float_format="%.6g")
    levels, *gains = report.tables()
    page = render(
        "tasks.safetab.persons.accuracy",
        PAGE,
        accuracy=report.accuracy,
        levels=levels,
        gains=gains,
        about=about,
        where=where,
        errors_chart=error_chart(report),
        sizes=by_size(report),
        statement=STATEMENT,
        version=version("das-flows"),
    )
    (out / PAGE).write_text(page, "utf-8")


def in_words(rows: Iterable[dict[Any, Any]]) -> list[dict[Any, Any]]:
    """Return rows of the CSV files with level, table and the donor's region type in words."""
    return [
        {
            **row,
            "LEVEL": Level(row["REGION_TYPE"], row["ITERATION_LEVEL"]).name,
            "TABLE": TABLES[row["WORKLOAD"]],
            "DONOR": Level(row.get("NOISE_OF", row["REGION_TYPE"]), row["ITERATION_LEVEL"]).geography,
        }
        for row in rows
    ]


def size_name(size: int) -> str:
    """Return a size class as a range of true totals: 0, 1-10, 11-100 and so on; `all` for -1."""
    if size <= 0:
        return "0" if size == 0 else ALL
    return f"{LARGEST[size - 1] + 1}-{LARGEST[size]}"


def _with_all_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows twice: under the size -1, and by their sizes."""
    return pd.concat([table.assign(size=-1), table])


def error_table(accuracy: Accuracy) -> pd.DataFrame:
    """Return the errors of published counts by level, size class, workload, kind of count and the level of their noise.

    OF: counts or estimates. ERROR_95: the smallest m such that at most 5% of the errors are beyond ±m. MOE: the stated
    margin, the same for the noise alone; MOE_LARGEST: the widest margin, of estimates near a threshold. COVERAGE: the
    share of counts within ± their margin. NOISE_COVERAGE (counts only): its mean without suppression and clipping.
    BIAS: the mean of published - true; RMSE: the root of its mean square. All in persons.

    In per cent: MAPE, the mean |error| over true counts above 0; WITHIN_5_PERCENT, the share of these within 5% of the
    true count; WITHIN_5, the share of all counts within 5 persons; OUTLIERS, the share in neither.
    """
    published = accuracy.errors[accuracy.errors["detail"] != NOT_PUBLISHED]
    by = ["of", "level", "size", "detail", "statistic", "noise_of"]
    return pd.DataFrame([_row(accuracy, key, part) for key, part in _with_all_sizes(published).groupby(by)])


def _row(accuracy: Accuracy, key: Any, part: pd.DataFrame) -> dict[str, Any]:
    quantity, level, size, detail, statistic, noise_of = key
    error, number, margin = (part[name].to_numpy() for name in ("error", "number", "margin"))
    cells = int(WIDTHS[detail]) // (1, 2, int(WIDTHS[detail]))[statistic]
    sums, least = ErrorSums.of(error, number), int(margin.min())
    law = accuracy.queries[noise_of].law(query_of(detail))
    with np.errstate(invalid="ignore"):
        shares = Closeness(*part[[*Closeness._fields]].sum().to_numpy(np.float64)).shares(sums.n)
    return {
        "REGION_TYPE": accuracy.levels[level].region_type,
        "ITERATION_LEVEL": accuracy.levels[level].iteration_level,
        "SIZE": size_name(size),
        "WORKLOAD": WORKLOADS[detail],
        "COUNT_OF": COUNT_OF[statistic],
        "OF": OF[quantity],
        # measured directly: cells, and totals of groups without a table; others are sums
        "MEASURED": statistic == CELL or (statistic == TOTAL and cells == 1),
        "NOISE_OF": accuracy.levels[noise_of].region_type,
        "COUNTS": int(sums.n),
        "ERROR_95": quantile_95(error, number),
        "MOE": least,
        "MOE_LARGEST": int(margin.max()),
        "COVERAGE": number[np.abs(error) <= margin].sum() / sums.n,
        "NOISE_COVERAGE": np.nan if quantity else float(coverage(law, least, cells)),
        "BIAS": sums.bias,
        "RMSE": sums.rmse,
        **{name.upper(): share for name, share in shares.items()},
        NOT_PRIVATE: True,
    }


def workload_table(accuracy: Accuracy) -> pd.DataFrame:
    """Return the share of the groups of each level and size class with each workload, and of suppressed groups.

    GROUPS are those of the domain; the shares refer to them, are averaged over the runs, and sum to 1.
    """
    totals = accuracy.errors[(accuracy.errors["statistic"] == TOTAL) & (accuracy.errors["of"] == 0)]
    by_detail = _with_all_sizes(totals).groupby(["level", "size", "detail"])["number"].sum().unstack(fill_value=0)
    groups = by_detail.sum(axis=1)
    shares = by_detail.div(groups, axis=0).reindex(columns=range(NOT_PUBLISHED + 1), fill_value=0)
    shares.columns = pd.Index([*WORKLOADS, "SUPPRESSED"])
    level, size = (shares.index.get_level_values(name) for name in ("level", "size"))
    about = {
        "REGION_TYPE": [accuracy.levels[place].region_type for place in level],
        "ITERATION_LEVEL": [accuracy.levels[place].iteration_level for place in level],
        "SIZE": [*map(size_name, size)],
        "GROUPS": groups // accuracy.runs,
    }
    return (
        pd.concat([pd.DataFrame(about, shares.index), shares], axis=1).reset_index(drop=True).assign(NOT_PRIVATE=True)
    )


def error_chart(report: Report) -> dict[str, Any]:
    """Draw, by level, the stated margin of a measured count and 95% of the errors of each table's counts."""
    found = pd.DataFrame(in_words(report.summary())).sort_values("COUNTS")
    levels = [level.name for level in report.accuracy.levels if level.name in set(found["LEVEL"])]
    by = found.drop_duplicates(["LEVEL", "WORKLOAD"], keep="last").set_index(["LEVEL", "WORKLOAD"])
    errors, margins = by["ERROR_95"].unstack().reindex(levels), by["MOE"].groupby("LEVEL").max()
    series = {
        f"95% of errors of {TABLES[name]}": Series(MARKS[name], [None if x != x else x for x in errors[name].tolist()])
        for name in WORKLOADS
        if name in errors
    }
    series |= {"stated margin": Series("bar", margins[levels].astype(float).tolist())}
    inside, counts = round((found["COUNTS"] * found["COVERAGE"]).sum()), found["COUNTS"].sum()
    return dots(
        [{"name": level} for level in levels],
        series,
        "persons (a step to the right is ten times as many)",
        finding=f"{inside:,} of {counts:,} measured counts are within their stated margin.",
    )


def by_size(report: Report) -> TextTable | None:
    """Return, for groups below the state by true size, how many are published and how far their counts are off."""
    groups, errors = (table[~table["REGION_TYPE"].isin(NATION_STATE)] for table in (report.workloads, report.errors))
    errors = errors[errors["MEASURED"] & (errors["OF"] == OF[0])]
    tables, rows = WORKLOADS[:TOTAL_ONLY], []
    for size in map(size_name, range(len(LARGEST))):
        part, own = groups[groups["SIZE"] == size], errors[errors["SIZE"] == size]
        if part.empty:
            continue
        number, counts = part["GROUPS"].sum(), own["COUNTS"].sum()
        shares = [(part[name] * part["GROUPS"]).sum() / number for name in ("SUPPRESSED", *tables)]
        means = [(own[name] * own["COUNTS"]).sum() / max(counts, 1) for name in ("COVERAGE", "BIAS")]
        measured = [f"{means[0]:.1%}", f"{means[1]:+z.2f}"] if counts else ["", ""]
        rows.append([size, f"{number:,}", *(f"{share:.1%}" for share in shares), f"{counts:,}", *measured])
    columns = [
        "size",
        "groups",
        "suppressed",
        *(TABLES[name] for name in tables),
        "counts",
        "within the margin",
        "bias",
    ]
    return TextTable("Below the state, by true size", columns, rows) if rows else None
