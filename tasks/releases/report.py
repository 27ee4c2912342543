"""report.html of a release: one frame for all systems, which opens with what it is in short.

A system extends `release.html` by sections of its own, or gives them as tables; marks, the answer, the privacy-loss
budget and the statements are here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from privacy.accounting.composition import Spend, read_spend
from tasks.releases.check import Check
from tasks.releases.pages import render
from tasks.releases.pages.text_table import TextTable
from tasks.releases.received import read_in

REPORT = "report.html"
NOT_CHARGED = {
    "SYNTHETIC": "No account was charged: the data is synthetic and describes nobody.",
    "PUBLIC": "No account was charged: the data was published before.",
}
CHARGED = (
    "It was charged once, to the curator’s account, before any noise was drawn: a stopped run goes on with the same "
    "noise, and a new run is charged anew. The curator shows it with das ledger check."
)
LIKELY = 99.5  # right of 100 at which a bound hides nothing by itself
NEXT_TO_NOTHING = (
    "For somebody who knows everything else the bound excludes next to nothing: they may find out whether a whole "
    "record is there. One figure of the release says less than all of them together: it costs a part of the budget."
)
IN_WORDS = "In at least 95 of 100 runs the noise in a count is no larger than its margin of error (±)."


@dataclass(frozen=True)
class InShort:
    """The answer that a report opens with: what was published, and how sure a figure is, with a table by place."""

    published: Sequence[str]
    sure: Sequence[str]
    table: TextTable | None = None


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
    """Write OUT/report.html by a package's own template, which extends the frame; without a package by the frame alone.

    covers: which states the counts of the nation are of, where these are not all. facts: for the template; `tables`
    are sections of the frame.
    """
    spent = spent_in_short(spend, manifest)
    where, name = (package, template) if package else ("tasks.releases.pages", "release.html")
    shown = {"manifest": manifest, "spend": spend, "heading": heading, "short": short, "spent": spent}
    page = render(where, name, **shown, covers=covers, **facts)
    (out / REPORT).write_text(page, "utf-8")


def check_report(release: Path, manifest: Mapping[str, Any]) -> Check:
    """Check that OUT/report.html has the figures of what was spent, relation by relation."""
    spend = read_spend(manifest["spent"])
    page = read_in(release, REPORT).decode("utf-8", "replace")
    said = " ".join(unescape(re.sub("<[^>]*>", " ", page)).split())
    charged = _charge(spend)
    rows = [f"{row.sentence} {' '.join(row.cells)}".strip() for row in spend.rows(manifest["spent"]["delta"])]
    faults = tuple(f"it does not say “{text}”" for text in (charged, *rows) if text not in said)
    return Check(f"what {REPORT} says was spent", f"{len(rows)} relations", faults)


def _charge(spend: Spend) -> str:
    """Return what the release was charged, which of some systems is the loss of no one change of the data."""
    row = spend.charged_row()
    if any(each.figure == spend.charged for each in spend.relations):
        return f"Privacy loss: {row.words}."
    charged = f"Charged: {row.cells[0]}, the sum of the budgets of all queries."
    return f"{charged} Each change of the data has a loss of its own."


def spent_in_short(spend: Spend | None, manifest: Mapping[str, Any]) -> list[str]:
    """Return what was spent and what it means for one record, in sentences; none for exact counts."""
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
        f"{', in 95 of 100 releases' if row.measure == 'rho' else ''}.",
    ]
    if more:
        costs = "; ".join(f"{each.sentence} ({each.cells[0]})" for each in more)
        said.append(f"The bounds are weaker for changes that cost more: {costs}.")
    if uncovered := [row.sentence for row in spend.rows() if row.figure is None]:
        said.append(f"Nothing is guaranteed for changes that are not covered: {'; '.join(uncovered)}.")
    return said
