"""Open published noisy measurements, from a release of das-flows or the Bureau's files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from privacy.accounting.journal import MarkName
from spine.settings import Jurisdiction
from tasks.errors import Refused, refusing
from tasks.geography.public_regions import keep_regions
from tasks.lifecycle.process import code_digest, versions
from tasks.lifecycle.run_directory import BOOT_ID
from tasks.lifecycle.workers import Workers
from tasks.records.files import digest_file
from tasks.releases.digests import file_digest
from tasks.releases.manifest import MANIFEST, marked
from tasks.releases.received import path_in
from tasks.top_down.blocks import BlockSource
from tasks.top_down.published.nmf.inventory import Faults, Inventory, is_published_files, take_inventory
from tasks.top_down.published.nmf.source import FileRequest, NmfSource
from tasks.top_down.published.source import Changes
from tasks.top_down.release.design_file import (
    BLOCKS_FOLDER,
    DECLARED_FILE,
    MEASUREMENTS,
    SETTINGS_FILE,
    SETTINGS_PATH,
    DesignFile,
    read_description,
    reading,
)
from tasks.top_down.release.measurement_files import BUREAU_FOLDER
from tasks.top_down.run_plan import US
from tasks.top_down.source import Origin

PURE = "The noise is two-sided geometric: where few draws make up an error, its law is not normal."
NO_FILES = "it has no folder such as US_Person_PL_PROD, not even one to three levels below"
OF_FILES = "--only-state, --state-totals, --geography and --check-spine are for such files"


@dataclass(frozen=True)
class PublishedMeasurements:
    """Published noisy measurements of a jurisdiction, opened but not yet read.

    states: two digits. banners: warnings to show with all their estimates. release: the release that they are part of,
    if the folder given is it or lies in it.
    """

    jurisdiction: Jurisdiction
    states: tuple[str, ...]
    origin: Origin
    banners: tuple[str, ...]
    release: Path | None

    def files(self, state: str) -> Any:
        """Return digests of everything that a state's estimates follow from."""
        raise NotImplementedError

    def read(self, path: Path, workers: Workers, changes: Changes, only: Sequence[str] = ()) -> BlockSource:
        """Read and validate them into the directory at `path`.

        only: states to estimate separately, without the US level; empty for all.
        """
        raise NotImplementedError

    def digest(self, state: str) -> str:
        """Return a digest that also covers code, libraries and boot: cached files are not flushed to disk."""
        boot = BOOT_ID.read_text("utf-8") if BOOT_ID.exists() else ""
        content = [code_digest(), versions(), boot, state, self.files(state)]
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class PublishedRelease(PublishedMeasurements):
    """Measurements of a das-flows release, as its folder measurements/ describes them."""

    described: DesignFile

    def files(self, state: str) -> Any:
        """Return the description, and digests of the blocks and the answers."""
        names, design, folder = [f"{BLOCKS_FOLDER}/{state}.parquet"], self.described.design, self.described.folder
        for product in design.products:
            names += [f"{product}/{level}/{state}.parquet" for level in design.settings[product].levels if level != US]
        with reading(folder):
            return repr(self.described), [(name, file_digest(path_in(folder, name))) for name in names]

    def read(self, path: Path, workers: Workers, changes: Changes, only: Sequence[str] = ()) -> BlockSource:
        """Read and validate them, with the description read at opening."""
        from tasks.top_down.published.release_source import BlockRelease, read_into

        source, folder = BlockRelease(path), self.described.folder
        read_into(source, workers, self.described, changes, only)
        keep_regions(source, str(folder.parent if folder.name == MEASUREMENTS else folder))
        return source


@dataclass(frozen=True)
class PublishedFiles(PublishedMeasurements):
    """Noisy measurement files of a jurisdiction. notes: about all files of the folder."""

    inventory: Inventory
    notes: Faults
    request: FileRequest

    def files(self, state: str) -> Any:
        """Return the digests of a state's files, and of the declared totals."""
        parts = [(part.name, file_digest(part.path)) for part in self.inventory.parts if part.state[1:] == state]
        return parts, self.request.totals and digest_file(self.request.totals)

    def read(self, path: Path, workers: Workers, changes: Changes, only: Sequence[str] = ()) -> BlockSource:
        """Read and validate them; a fault is a finding."""
        from tasks.top_down.published.nmf.read_files import FileReading, read_files

        source = NmfSource(path)
        parts = self.inventory.of_states(only) if only else self.inventory
        read_files(FileReading(source, workers, parts, self.request, changes, []), self.notes)
        if self.request.geography is not None:
            keep_regions(source, self.request.geography)
        return source


def release_of(folder: Path) -> Path | None:
    """Return the folder with the `measurements/` of a declaration, given either; None for another folder."""
    return _holding(folder, DECLARED_FILE)


def find_published(
    folder: Path, request: FileRequest | None = None, states: Sequence[int] = ()
) -> list[PublishedMeasurements]:
    """Return the measurements in a folder, by jurisdiction.

    request, states: for the Bureau's files; if given, these are read, not the release that they are part of.

    Raises Refused if the folder has no measurements.
    """
    is_release = any((place / SETTINGS_FILE).exists() for place in (folder, folder / MEASUREMENTS))
    asked = bool(states) or request not in (None, FileRequest())
    if is_published_files(folder) and (asked or not is_release):
        inventory, notes = take_inventory(folder, tuple(states))
        parts = [inventory.only(name) for name in inventory.jurisdictions] or [inventory]
        return [_of_files(folder, part, notes, request or FileRequest()) for part in parts]
    if is_release and asked:
        raise Refused(f"{folder}: {NO_FILES}; {OF_FILES}")
    if is_release:
        return [_of_release(folder)]
    if release_of(folder) is not None:
        raise Refused(f"{folder} holds measurements of a declaration: das tda estimate alone reads them")
    if (folder / MANIFEST).exists():
        raise Refused(
            f"{folder} is a release without measurements/: name the noisy measurements that it was estimated from, and "
            "the release with --published"
        )
    raise Refused(
        f"{folder} holds no noisy measurements: name a TopDown release, its folder measurements/, or the Bureau's "
        "files (a folder with US_Person_PL_PROD)"
    )


def _of_release(given: Path) -> PublishedRelease:
    """Return the measurements of a das-flows release, or of its folder measurements/."""
    with reading(given):
        own = (given / SETTINGS_FILE).exists()
        described = read_description(given if own else path_in(given, SETTINGS_PATH).parent)
    design, origin, validated = described.design, described.origin, described.validated
    banners = (*_banners(origin, validated.mark), *([PURE] if design.definition == "puredp" else []))
    return PublishedRelease(
        design.jurisdiction, validated.states, origin, banners, _holding(given, MANIFEST), described
    )


def _holding(folder: Path, file: str) -> Path | None:
    """Return the release with a file: the folder or, if it has the name of a release's measurements, the one above."""
    absolute = folder.absolute()
    places = (folder, absolute.parent) if absolute.name in (MEASUREMENTS, BUREAU_FOLDER) else (folder,)
    return next((place for place in places if (place / file).exists()), None)


def _of_files(folder: Path, inventory: Inventory, notes: Faults, request: FileRequest) -> PublishedFiles:
    """Return the noisy measurement files of a folder's only jurisdiction."""
    with refusing(str(folder)):
        footer = inventory.written_by
    origin = Origin(None if footer is None else footer.run)
    banners, release = _banners(origin, footer and footer.mark), _holding(folder, MANIFEST)
    jurisdiction: Jurisdiction = "pr" if inventory.jurisdictions == ("pr",) else "us"
    return PublishedFiles(jurisdiction, inventory.states, origin, banners, release, inventory, notes, request)


def _banners(origin: Origin, mark: MarkName | None) -> tuple[str, ...]:
    return (*([origin.statement] if origin.run is None else []), *marked(mark).values())
