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
from flows.reports.show.told import View
from tasks.lifecycle.errors import Refused


class DetailedDhca:
    """The views of a Detailed DHC-A release by their addresses."""

    kind = "detailed"

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], names: Names, params: Path | None, scope: Scope
    ) -> None:
        self.release = Release(folder, manifest, names, params, scope)
        self.folder, self.manifest, self.digest = folder, manifest, self.release.digest

    def view(self, asked: Mapping[str, str]) -> View:
        """The view that an address names. Raises NotThere where it names none."""
        return pages.view_of(self.release, asked)

    def csv(self, view: View) -> str:
        """The main table of a view."""
        return pages.as_csv(view)

    def rows(self, view: View) -> pages.Table:
        """The columns and rows of a view's table."""
        return pages.table(view)

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """The address of the view that names in the terminal mean."""
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
        """Write the data of a static copy; returns what else the browser needs to know."""
        return write_data(self.release, folder)

    @property
    def scope(self) -> Scope:
        """The part of the release that is shown."""
        return self.release.scope

    def warm(self) -> None:
        """Make what the first search would wait for, and ask every file once."""
        index_of(self.release)
        for region in {region.type: region for region in self.release.regions}.values():
            self.release.totals(region_type=region.type, region_id=region.id)
            for code in {one.level: code for code, one in self.release.iterations.items()}.values():
                self.release.cells(region, code)
