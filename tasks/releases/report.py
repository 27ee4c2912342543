"""report.html of a release: one frame for all systems, with a summary at the top.

A system extends `release.html` with its own sections, or passes them as tables. The frame has marks, summary,
privacy-loss budget and statements. The summary follows from the released tables (`in_short`), or is the system's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from privacy.accounting.composition import Spend, read_spend
from tasks.releases.check import Check
from tasks.releases.datapackage import resources_of
from tasks.releases.description import Description
from tasks.releases.manifest import file_names
from tasks.releases.pages import number, render
from tasks.releases.pages.text_table import TextTable
from tasks.releases.received import read_in

REPORT = "report.html"
NOT_CHARGED = {
    "SYNTHETIC": "No account was charged: the data is synthetic and describes nobody.",
    "PUBLIC": "No account was charged: the data was published before.",
}
CHARGED = (
    "It was charged once, to the curator’s account, before any noise was drawn: a stopped run goes on with the same "
    "noise, and a new run is charged anew. The curator shows it with das ledger check. Losses of several releases of "
    "the same data add up."
)
LIKELY = 99.5  # at a bound above this, a bound hides nothing by itself
NEXT_TO_NOTHING = (
    "For somebody who knows everything else the bound excludes next to nothing: they may find out whether a whole "
    "record is there. One figure of the release says less than all of them together: it costs a part of the budget."
)
IN_WORDS = "In at least 95 of 100 runs the noise in a count is no larger than its margin of error (±)."


@dataclass(frozen=True)
class InShort:
    """The summary that opens a report: what was published, and how sure a figure is, with a table by place."""

    published: Sequence[str]
    sure: Sequence[str]
    table: TextTable | None = None


def in_short(
    out: Path,
    description: Description,
    manifest: Mapping[str, Any],
    published: Sequence[str],
    *,
    changed: str = "",
    notes: Sequence[str] = (),
) -> InShort:
    """Return the summary of the release in OUT: the number of its counts, and their margins by place.

    published: what the counts count. changed: why counts differ from the records apart from noise, if they do.
    """
    resources = resources_of(out, description, file_names(out))
    tables = [table for table in resources if table.with_role("count") and not table.twin]
    found = [
        (table.level or table.title, *_extent(out / path, margin.name))
        for table in tables
        for margin in table.with_role("margin")
        for path in table.paths
    ]
    counts = f"{sum(rows for _, rows, *_ in found):,} counts in {len(tables):,} table{'s' * (len(tables) != 1)}."
    if "NOT_PRIVATE" in manifest:
        return InShort([*published, counts], [f"The counts are exact. {changed}".strip()])
    rows = []
    for place in dict.fromkeys(place for place, *_ in found):
        own, least, most = zip(*(ends for name, *ends in found if name == place), strict=True)
        rows.append([place, f"{sum(own):,}", number(min(least)), number(max(most))])
    sums = "A count that sums more measured cells has a larger margin."
    margins = TextTable("In short", ["table", "counts", "±, at least", "at most"], rows, [sums, *notes])
    sure = [IN_WORDS, *([f"{changed} ± does not cover that."] if changed else [])]
    return InShort([*published, counts], sure, margins)


def _extent(path: Path, column: str) -> tuple[int, float, float]:
    """Return the number of rows of a Parquet file, and the smallest and largest value of a column (0 without rows)."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    at = metadata.schema.names.index(column)
    ends = [group.column(at).statistics for group in groups if group.num_rows]
    least, most = min((each.min for each in ends), default=0), max((each.max for each in ends), default=0)
    return metadata.num_rows, least, most


def write_report(
    package: str | None,
    out: Path,
    manifest: Mapping[str, Any],
    spend: Spend | None,
    heading: str,
    short: InShort,
    *,
    template: str = REPORT,
    covers: str = "",
    **facts: Any,
) -> None:
    """Write OUT/report.html from a package's template, which extends the frame, or from the frame alone.

    covers: the states that the nation's counts cover, if not all. facts: for the template; `tables` are sections of the
    frame.
    """
    spent = spent_in_short(spend, manifest)
    where, name = (package, template) if package else ("tasks.releases.pages", "release.html")
    shown = {"manifest": manifest, "spend": spend, "heading": heading, "short": short, "spent": spent}
    page = render(where, name, **shown, covers=covers, **facts)
    (out / REPORT).write_text(page, "utf-8")


def check_report(release: Path, manifest: Mapping[str, Any]) -> Check:
    """Check that OUT/report.html has the spend's figures, for each neighbour relation."""
    spend = read_spend(manifest["spent"])
    page = read_in(release, REPORT).decode("utf-8", "replace")
    said = " ".join(unescape(re.sub("<[^>]*>", " ", page)).split())
    charged = _charge(spend)
    rows = [f"{row.sentence} {' '.join(row.cells)}".strip() for row in spend.rows(manifest["spent"]["delta"])]
    faults = tuple(f"it does not say “{text}”" for text in (charged, *rows) if text not in said)
    return Check(f"what {REPORT} says was spent", f"{len(rows)} relations", faults)


def _charge(spend: Spend) -> str:
    """Return the charge of the release in words; for some systems it is not the loss of a single change of the data."""
    row = spend.charged_row()
    if any(each.figure == spend.charged for each in spend.relations):
        return f"Privacy loss: {row.words}."
    charged = f"Charged: {row.cells[0]}, the sum of the budgets of all queries."
    return f"{charged} Each change of the data has a loss of its own."


def spent_in_short(spend: Spend | None, manifest: Mapping[str, Any]) -> list[str]:
    """Return the spend and its meaning for one record, in sentences; empty for exact counts."""
    if spend is None:
        return []
    charged = [text for mark, text in NOT_CHARGED.items() if mark in manifest]
    covered = [row for row in spend.rows() if row.figure is not None]
    row = covered[0]
    more = [each for each in covered[1:] if each.figure is not None and each.figure > spend.charged]
    right, belief = row.attacker
    part = "" if row.figure == spend.charged else f" ({row.words})"
    said = [
        _charge(spend),
        *(charged or [CHARGED]),
        *([NEXT_TO_NOTHING] if float(right) >= LIKELY else []),
        f"What that means for this change, {row.sentence}{part}: suppose somebody knows everything else and guesses "
        f"whether it was made. If they say so wrongly 5 times in 100, they say so rightly at most {right} times in "
        f"100; without the release, 5. Whoever was 1% sure of it is at most {belief} sure afterwards"
        f"{' in 95 of 100 releases, and may be surer in the others' if row.measure == 'rho' else ''}.",
    ]
    if more:
        costs = "; ".join(f"{each.sentence} ({each.cells[0]})" for each in more)
        said.append(f"The bounds are weaker for changes that cost more: {costs}.")
    if uncovered := [row.sentence for row in spend.rows() if row.figure is None]:
        said.append(f"Nothing is guaranteed for changes that are not covered: {'; '.join(uncovered)}.")
    return said
