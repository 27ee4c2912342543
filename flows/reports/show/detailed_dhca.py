"""A Detailed DHC-A release, as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.reports.show import pages
from flows.reports.show.copied_dhca import write_data
from flows.reports.show.finding import index_of, one_iteration, one_region
from flows.reports.show.names import Names
from flows.reports.show.release import Release
from flows.reports.show.scope import Scope
from flows.reports.show.shown import Shown
from flows.reports.show.told import View
from tasks.lifecycle.errors import Refused


class DetailedDhca(Shown):
    """The views of a Detailed DHC-A release by their addresses."""

    kind = "detailed"

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], names: Names, params: Path | None, scope: Scope
    ) -> None:
        super().__init__(folder, manifest, scope)
        self.release = Release(folder, manifest, names, params, scope)
        if any(level.region_type == "USA" for level in self.release.facts):
            self.nation = manifest["geography"]["states"]

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view that an address names. Raises NotThere where it names none."""
        return pages.view_of(self.release, asked)

    def rows(self, view: View) -> pages.Table:
        """Return the columns and rows of a view's main table."""
        return pages.table(view)

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view that a region and an iteration mean. Raises NotThere where they mean none."""
        if table is not None:
            raise Refused("--table is for bottom-up and TopDown releases")
        if region is None and iteration is None:
            return {"view": "overview"}
        place = one_region(self.release, region) if region is not None else None
        code = one_iteration(self.release, iteration) if iteration is not None else None
        if place is None:
            return {"view": f"iteration/{code}"}
        return {"view": f"region/{place.key}" if code is None else f"group/{place.key}/{code}"}

    def write(self, folder: Path) -> dict[str, Any]:
        """Write groups and cells as Parquet; return what else the browser needs to know."""
        return write_data(self.release, folder)

    def warm(self) -> None:
        """Make what the first search would wait for, and ask every file once."""
        index_of(self.release)
        for region in {region.type: region for region in self.release.regions}.values():
            self.release.totals(region_type=region.type, region_id=region.id)
            for code in {one.level: code for code, one in self.release.iterations.items()}.values():
                self.release.cells(region, code)
