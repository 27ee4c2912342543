"""Notes on the pages of a Detailed DHC-B release: which groups it has, and why two counts of one group differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.reports.show.release_pages import ReleasePages
from flows.reports.show.scope import Scope
from flows.reports.show.search import Code, SearchResult
from flows.reports.show.view import Confidence
from tasks.geography.regions import Region
from tasks.releases.pages import number

TWICE = (
    "T3 and T4 count the same households with independent noise: two counts of a group that differ do not contradict "
    "each other."
)
POOLED = {True: "The estimates pool both.", False: "das ddhcb run --estimates pools them."}
COTERMINOUS = {
    True: "Regions made of the same blocks have one and the same count.",
    False: "Regions made of the same blocks have independent noise too: this run did not equate them.",
}


class DetailedDhcbPages(ReleasePages):
    """The views of a Detailed DHC-B release."""

    selected = (
        "Which groups are here, and in what detail, was decided by the Detailed DHC-A; nothing was left out because of "
        "the household count."
    )

    nothing = "Nothing was published here: the Detailed DHC-A has no such group, or suppressed it."

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        super().__init__(folder, manifest, scope)
        equated = bool(manifest["options"]["coterminous"])
        if "NOT_PRIVATE" not in manifest:
            self.across = " ".join([TWICE, POOLED[self.has_estimates], COTERMINOUS[equated]])

    def pair(self, region: Region, code: Code, at: Confidence) -> SearchResult:
        """Return the answer for a group, with its households in T3."""
        answer = super().pair(region, code, at)
        for name, table in self.tables.items():
            if name.startswith("t3-") and region.type in table.types and table.count and table.margin:
                by = {**table.at(region), code.column: code.code, "T3_DATA_CELL": "0"}
                for row in table.rows(table.select(by), "", slice(0, 1), at):
                    count, margin = (number(row[table.columns.index(each)]) for each in (table.count, table.margin))
                    return replace(answer, count=f"{count} ± {margin} households")
        return answer
