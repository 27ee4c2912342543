"""A Detailed DHC-A release, as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.reports.show import pages
from flows.reports.show.finding import index_of
from flows.reports.show.names import Names
from flows.reports.show.release import Release
from flows.reports.show.scope import Scope
from flows.reports.show.told import View


class DetailedDhca:
    """The views of a Detailed DHC-A release by their addresses."""

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

    def warm(self) -> None:
        """Make what the first search would wait for."""
        index_of(self.release)
