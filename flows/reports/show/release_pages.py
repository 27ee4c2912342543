"""The pages of a release, whichever system made it: what the server, the terminal and a copy ask for."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.reports.show.scope import Scope
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import MANIFEST, release_digest


class NotThere(Exception):
    """Nobody has that name or code; the message says what was asked for and what to do."""


class ReleasePages(ABC):
    """The views of a release by their addresses.

    Attributes
    ----------
    folder : Path
        The release.
    manifest : dict
        What its manifest.json says.
    scope : Scope
        The part of it that is shown.
    digest : str
        That of the manifest, which the ledger keeps.
    nation : sequence of str
        The FIPS codes of the states that its nation is made of; none where it counts no nation.
    """

    nation: Sequence[str] = ()

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        self.folder, self.manifest, self.scope = folder, manifest, scope
        self.digest = release_digest(folder)

    @abstractmethod
    def view(self, asked: Mapping[str, str]) -> Any:
        """Return the view that an address names, a dataclass. Raises NotThere where it names none."""

    @abstractmethod
    def rows(self, view: Any) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and rows of a view's main table."""

    @abstractmethod
    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view that names in the terminal mean. Raises NotThere or Refused for others."""

    @abstractmethod
    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds, without page numbers; the release as a whole first."""

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """Return what the search of a copy finds: name, detail and the view of its address; by default nothing."""
        return iter(())

    def warm(self) -> None:  # noqa: B027  a kind need not have any
        """Prepare what the first answers need; by default nothing."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a release of any kind. Raises Refused where the folder is none."""
    path = folder / MANIFEST
    inside = sorted(name.parent.name for name in folder.glob(f"*/{MANIFEST}")) if folder.is_dir() else []
    if inside:
        raise Refused(f"{folder} holds releases but is not one itself; show one of them: {', '.join(inside)}")
    if not path.is_file():
        raise Refused(f"{folder} is not a release: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text())
        if not isinstance(manifest, dict) or not isinstance(manifest["release"], str) or not dict(manifest["files"]):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise Refused(f"{path} is not the manifest of a release") from None
    return manifest
