"""The tables of an accuracy report: errors and workloads, and what a person reads of them. All NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privacy.analyses.error_measures import Closeness, ErrorSums, quantile_95
from privacy.noise.margins import coverage
from tasks.detailed_dhca.accuracy.bureau import NAMES, NOT_PRIVATE
from tasks.detailed_dhca.accuracy.errors import COUNT, LARGEST, Accuracy, is_measured
from tasks.detailed_dhca.details import TABLE_NAMES, WIDTHS
from tasks.lifecycle.errors import Refused
from tasks.pages.text_table import TextTable
from tasks.population_groups.levels import Level

WORKLOADS = (*NAMES, "TotalOnly")  # by detail, as in the CSV files
TABLES = dict(zip(WORKLOADS, (*TABLE_NAMES.values(), "TotalOnly"), strict=True))  # the same for people
COUNT_OF = ("table", "sex", "cell")  # by statistic
OF = ("count", "estimate")
LEVEL = {"level": "{LEVEL}"}
MEASURES = {
    "counts": "{COUNTS:,}",
    "95% of errors within ±": "{ERROR_95:,}",
    "stated margin of error ±": "{MOE:,}",
    "within the margin": "{COVERAGE:.2%}",
    "the noise alone": "{NOISE_COVERAGE:.2%}",
    "bias": "{BIAS:+z.2f}",
    "RMSE": "{RMSE:.2f}",
}
OF_LEVEL = {**LEVEL, "table": "{TABLE}", "noise of": "{NOISE_OF}", "share of groups": "{PROPORTION:.2%}"}
OF_LEVEL |= MEASURES | {"suppressed in level": "{SUPPRESSED:.2%}"}
OF_GAIN = LEVEL | {  # a count, then its estimate
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
OF_SIZE = {**LEVEL, "true size": "{SIZE}", "table": "{TABLE}", "count of a": "{COUNT_OF}"}
OF_SIZE |= {"noise of": "{NOISE_OF}", "of": "{OF}"} | MEASURES
OF_CLOSENESS = {
    **LEVEL,
    "true size": "{SIZE}",
    "table": "{TABLE}",
    "count of a": "{COUNT_OF}",
    "noise of": "{NOISE_OF}",
}
OF_CLOSENESS |= {"of": "{OF}", "counts": "{COUNTS:,}"}
OF_CLOSENESS |= {"mean error": "{SHOWN[MAPE]}", "within 5%": "{SHOWN[WITHIN_5_PERCENT]}", "within 5": "{WITHIN_5:.1f}%"}
OF_CLOSENESS |= {"outliers": "{OUTLIERS:.1f}%"}
SHARES = {**LEVEL, "true size": "{SIZE}", "groups": "{GROUPS:,}"}
SHARES |= {words: f"{{{name}:.2%}}" for name, words in TABLES.items()}
SHARES |= {"suppressed": "{SUPPRESSED:.2%}"}
OF_POSITIVE = ("MAPE", "WITHIN_5_PERCENT")  # of no count where no true one is above 0
ALL = "all"
STATEMENT = (
    "NOT PRIVATE: these are exact errors of repeated runs on synthetic data. There is no such report for real data."
)


@dataclass(frozen=True)
class Report:
    """The two tables of an accuracy report; see `error_table` and `workload_table`."""

    accuracy: Accuracy
    errors: pd.DataFrame
    workloads: pd.DataFrame

    def summary(self) -> list[dict[Any, Any]]:
        """Return a row for each level and workload, all sizes together: errors of measured counts, share of groups."""
        by = ["REGION_TYPE", "ITERATION_LEVEL"]
        chosen = (self.errors["SIZE"] == ALL) & self.errors["MEASURED"] & (self.errors["OF"] == OF[COUNT])
        joined = self.errors[chosen].merge(self.workloads[self.workloads["SIZE"] == ALL], on=[*by, "SIZE", NOT_PRIVATE])
        joined["PROPORTION"] = [row[row["WORKLOAD"]] for row in joined.to_dict("records")]
        return joined.drop(columns=[*WORKLOADS, "SIZE", "MEASURED"]).to_dict("records")

    def gains(self) -> pd.DataFrame:
        """Counts and estimates side by side, all sizes together: by level, workload and kind of count; maybe empty.

        GAIN is the part of the counts' root mean square error that the estimates do not have. Coterminous recipients
        are left out: they have their donors' errors.
        """
        chosen = (self.errors["SIZE"] == ALL) & (self.errors["NOISE_OF"] == self.errors["REGION_TYPE"])
        by = ["REGION_TYPE", "ITERATION_LEVEL", "WORKLOAD", "COUNT_OF"]
        errors = self.errors[chosen].set_index(by)
        count, estimate = (errors[errors["OF"] == quantity][list(COMPARED)] for quantity in OF)
        joined = count.add_suffix("_COUNT").join(estimate.add_suffix("_ESTIMATE"), how="inner").reset_index()
        joined["GAIN"] = 1 - joined["RMSE_ESTIMATE"] / joined["RMSE_COUNT"]
        return joined

    def tables(self) -> list[TextTable]:
        """Return what a person reads first: the errors by level and workload, and what estimates buy, if there are."""
        levels = TextTable.filled("Errors by level and table", OF_LEVEL, in_words(self.summary()), words=3)
        gains = in_words(self.gains().to_dict("records"))
        compared = (
            [TextTable.filled("Counts and estimates (count → estimate)", OF_GAIN, gains, words=3)] if gains else []
        )
        return [levels, *compared]


COMPARED = ("COUNTS", "MOE", "MOE_LARGEST", "COVERAGE", "BIAS", "RMSE")


def make_report(accuracy: Accuracy) -> Report:
    """Tabulate what the repetitions have shown. Raises Refused where they published nothing."""
    if accuracy.errors.counts.empty:
        raise Refused("no run published a single count: there are no errors to report")
    return Report(accuracy, error_table(accuracy), workload_table(accuracy))


def in_words(rows: Iterable[dict[Any, Any]]) -> list[dict[Any, Any]]:
    """Return rows of the CSV files with the level, the table and the donor's region type in words."""
    words = []
    for row in rows:
        kind, level = row["REGION_TYPE"], row["ITERATION_LEVEL"]
        donor = {"NOISE_OF": Level(row["NOISE_OF"], level).geography} if "NOISE_OF" in row else {}
        shown = {name: f"{row[name]:.1f}%" if row[name] == row[name] else "" for name in OF_POSITIVE if name in row}
        words.append(
            {
                **row,
                "SHOWN": shown,
                "LEVEL": Level(kind, level).name,
                "TABLE": TABLES.get(row.get("WORKLOAD", "")),
                **donor,
            }
        )
    return words


def size_name(size: int) -> str:
    """Return a size class as a range of true totals: 0, 1-10, 11-100 and so on; 1 is of the second."""
    if size == 0:
        return "0"
    return f"{LARGEST[size - 1] + 1 if size > 2 else 1}-{LARGEST[max(size, 2)]}"


def error_table(accuracy: Accuracy) -> pd.DataFrame:
    """Errors of published counts by level, size class, workload, what the count is of and whose noise it has.

    OF: counts or estimates. ERROR_95 is the smallest m such that at most 5% of the errors are beyond ±m; MOE,
    the stated margin, the smallest m of which that is true for the noise alone. Estimates near a threshold have wider
    ones, up to MOE_LARGEST. COVERAGE is the share of the counts within ± their margin, NOISE_COVERAGE, of counts only,
    what it would be on average without suppression and clipping. BIAS is the mean of published - true, RMSE the root
    of its mean square. All in persons. In per cent: MAPE, the mean |error| over true counts above 0; WITHIN_5_PERCENT,
    the share of these within 5% of the true count; WITHIN_5, that of all counts within 5 persons; OUTLIERS, in neither.
    """
    counts = accuracy.errors.counts.copy()
    counts["size"] = counts["size"].replace(1, 2)  # a class of its own for the Bureau's layout only
    by = ["of", "level", "size", "detail", "statistic", "noise_of"]
    close = accuracy.errors.closeness.copy()
    close["size"] = close["size"].replace(1, 2)
    groups, sums = (pd.concat([table.assign(size=-1), table]).groupby(by) for table in (counts, close))
    closeness = sums[[*Closeness._fields]].sum()
    return pd.DataFrame([_row(accuracy, key, part, closeness) for key, part in groups])


def _row(accuracy: Accuracy, key: Any, part: pd.DataFrame, closeness: pd.DataFrame) -> dict[str, Any]:
    quantity, level, size, detail, statistic, noise_of = key
    error, number, margin = (part[name].to_numpy() for name in ("error", "number", "margin"))
    cells = int(WIDTHS[detail]) // (1, 2, int(WIDTHS[detail]))[statistic]
    sums, least = ErrorSums.of(error, number), int(margin.min())
    law = accuracy.queries[noise_of].of_detail(detail)
    close = Closeness(*closeness.loc[key]) if key in closeness.index else Closeness(0, 0, 0, 0, 0)
    with np.errstate(invalid="ignore"):
        shares = Closeness(*map(np.float64, close)).shares(sums.n)
    return {
        "REGION_TYPE": accuracy.levels[level].region_type,
        "ITERATION_LEVEL": accuracy.levels[level].iteration_level,
        "SIZE": ALL if size < 0 else size_name(size),
        "WORKLOAD": WORKLOADS[detail],
        "COUNT_OF": COUNT_OF[statistic],
        "OF": OF[quantity],
        "MEASURED": bool(is_measured(statistic, detail)),
        "NOISE_OF": accuracy.levels[noise_of].region_type,
        "COUNTS": int(sums.n),
        "ERROR_95": quantile_95(error, number),
        "MOE": least,
        "MOE_LARGEST": int(margin.max()),
        "COVERAGE": number[np.abs(error) <= margin].sum() / sums.n,
        "NOISE_COVERAGE": float(coverage(law, least, cells)) if quantity == COUNT else np.nan,
        "BIAS": sums.bias,
        "RMSE": sums.rmse,
        **{name.upper(): share for name, share in shares.items()},
        NOT_PRIVATE: True,
    }


def workload_table(accuracy: Accuracy) -> pd.DataFrame:
    """Return what became of the groups of each level and size class: the share of each workload, and of the suppressed.

    GROUPS are those of the domain; the shares are of all of them, averaged over the runs, and add up to 1.
    """
    tables = []
    for table in (accuracy.errors.groups, accuracy.errors.published):
        classes = table.assign(size=table["size"].replace(1, 2))
        tables.append(pd.concat([table.assign(size=-1), classes]))
    groups = tables[0].groupby(["level", "size"])["number"].sum()
    details = tables[1].groupby(["level", "size", "detail"])["number"].sum().unstack(fill_value=0)
    rows = []
    for level, size in groups[groups > 0].index:
        shares = details.loc[(level, size)] / groups[level, size]
        rows.append(
            {
                "REGION_TYPE": accuracy.levels[level].region_type,
                "ITERATION_LEVEL": accuracy.levels[level].iteration_level,
                "SIZE": ALL if size < 0 else size_name(size),
                "GROUPS": int(groups[level, size]) // accuracy.runs,
                **dict(zip(WORKLOADS, shares, strict=True)),
                "SUPPRESSED": 1 - shares.sum(),
                NOT_PRIVATE: True,
            }
        )
    return pd.DataFrame(rows)
