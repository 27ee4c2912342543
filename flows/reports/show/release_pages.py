"""The pages of a release, whichever system made it: what the server, the terminal and a copy ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.reports.show.maps.places import Places
from flows.reports.show.scope import Scope
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import MANIFEST, release_digest, require_release, spend_of
from tasks.lifecycle.manifest import read_manifest as manifest_of
from tasks.lifecycle.received import NotOfRelease, reason_of

Table = tuple[list[str], list[list[Any]]]  # columns and rows


class NotThere(Exception):
    """No view has that address, name or code; the message names it and the remedy."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What one page shows: typed rows, which the page, the terminal, the CSV and the JSON all show unchanged.

    reading: how to read it, in a sentence or two. view: the name of its template.
    """

    title: str
    reading: str
    view: str

    def table(self) -> Table:
        """Return the main table, as CSV has it."""
        raise NotImplementedError

    def described(self) -> Sequence[tuple[str, ...]]:
        """Return name, heading, unit and meaning of its columns; by default nothing."""
        return ()


class ReleasePages(ABC):
    """The views of a release by their addresses.

    Attributes
    ----------
    folder : Path
        The release.
    manifest : dict
        The content of its manifest.json.
    scope : Scope
        The part of it that is shown.
    digest : str
        The digest of the manifest, which the ledger keeps.
    nation : sequence of str
        The FIPS codes of the states in its nation; empty where it has no counts of the nation.
    places : Places
        Where its regions are, for maps.
    any_confidence : bool
        Whether its margins are known at another confidence than that of its files.
    """

    nation: Sequence[str] = ()
    places: Places = Places()
    any_confidence = True

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        self.folder, self.manifest, self.scope = folder, manifest, scope
        self.digest = release_digest(folder)

    @abstractmethod
    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view that an address names. Raises NotThere where it names none."""

    @abstractmethod
    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view that the options of `das show` name. Raises NotThere or Refused."""

    @abstractmethod
    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses that a copy holds, without page numbers; the release as a whole first."""

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """Return the entries of a copy's search: name, detail and the view of its address; by default none."""
        return iter(())

    def single_file(self) -> dict[str, Any]:
        """Return the data of a copy in one file. Raises Refused where this kind has none."""
        raise Refused("--single-file is for releases of the Detailed DHC-A; --export copies any release")

    def warm(self) -> None:  # noqa: B027  a kind need not have any
        """Prepare what the first answers need; by default nothing."""


@contextmanager
def anybodys(folder: Path) -> Iterator[None]:
    """Turn what a release of another shape makes the code inside raise into a refusal: it may be anybody's work.

    No list of what its manifest and tables must be would be complete. OSError passes: it names its reason itself.
    """
    try:
        yield
    except (Refused, NotThere, OSError):
        raise
    except Exception as error:
        what = f"{folder} is not what its {MANIFEST} says, or not a release of its kind"
        raise Refused(f"{what}: {reason_of(error)}") from error


def spend_facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a release spent as facts of a page: each neighbour relation with its figure."""
    spend = spend_of(manifest)
    return [(f"privacy loss, {row.sentence}", row.words) for row in spend.rows()] if spend else []


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a release of any kind. Raises Refused where the folder is none."""
    require_release(folder)
    try:
        manifest = manifest_of(folder)
    except NotOfRelease as fault:
        raise Refused(f"{folder}: {fault}") from None
    if not all(isinstance(manifest.get(key), str) for key in ("release", "run")):
        raise Refused(f"{folder / MANIFEST} is not the manifest of a release: it does not say what, or of which run")
    return manifest
