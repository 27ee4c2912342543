"""Find published noisy measurements, and read them as a source: of a release of das-flows, or the Bureau's files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from privacy.accounting.journal import MarkName
from spine.settings import Jurisdiction
from tasks.inputs.files import digest_file
from tasks.inputs.public_regions import keep_regions
from tasks.lifecycle.digests import file_digest
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import marked
from tasks.lifecycle.process import code_digest, versions
from tasks.lifecycle.received import path_in
from tasks.lifecycle.run_directory import BOOT_ID
from tasks.lifecycle.workers import Workers
from tasks.top_down.published.nmf.faults import Faults
from tasks.top_down.published.nmf.inventory import Inventory, is_published_files, take_inventory
from tasks.top_down.published.nmf.source import NmfSource, Request
from tasks.top_down.published.source import PublishedSource
from tasks.top_down.release.description import (
    BLOCKS_FOLDER,
    FOLDER,
    SETTINGS_FILE,
    Description,
    read_description,
    reading,
)
from tasks.top_down.release.nmf_layout import Footer
from tasks.top_down.run_plan import US
from tasks.top_down.source import Origin

PURE = "The noise is two-sided geometric: where few draws make up an error, its law is not normal."
NO_FILES = "no folder such as US_Person_PL_PROD is in it, or one to three levels below"
OF_FILES = "--only-state, --totals, --geography, --check-spine, --part-totals and --as-tabulated are for such files"


class Published(Protocol):
    """Published noisy measurements of a jurisdiction, not yet read."""

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction of the states."""

    @property
    def states(self) -> tuple[str, ...]:
        """The states that are there, two digits."""

    @property
    def origin(self) -> Origin:
        """Who published them."""

    @property
    def banners(self) -> tuple[str, ...]:
        """What is to be said wherever their estimates are shown."""

    @property
    def release(self) -> Path | None:
        """The release that the measurements are part of."""

    def digest(self, state: str) -> str:
        """Return the digest of everything that a state's estimates follow from."""

    def open(
        self, path: Path, workers: Workers, changes: Mapping[str, Any], only: Sequence[str] = ()
    ) -> PublishedSource:
        """Read and validate the measurements into the directory at `path`.

        changes: fields of the design to replace. only: these states by themselves, without the US level.
        """


def find_published(folder: Path, request: Request | None = None, states: Sequence[int] = ()) -> list[Published]:
    """Return the measurements in a folder, by jurisdiction.

    request, states: of the Bureau's files; they are read, not the release that they are part of, where one is given.

    Raises
    ------
    Refused
        where there are none.
    """
    is_release = any((place / SETTINGS_FILE).exists() for place in (folder, folder / FOLDER))
    asked = bool(states) or request not in (None, Request())
    if is_published_files(folder) and (asked or not is_release):
        inventory, notes = take_inventory(folder, tuple(states))
        parts = [inventory.only(name) for name in inventory.jurisdictions] or [inventory]
        return [BureauFiles(folder, part, notes, request or Request()) for part in parts]
    if is_release and asked:
        raise Refused(f"{folder}: {NO_FILES}; {OF_FILES}")
    if is_release:
        return [ReleasedMeasurements(folder)]
    if (folder / "manifest.json").exists():
        raise Refused(
            f"{folder} is a release without measurements/: name the noisy measurements that it was estimated from"
        )
    raise Refused(
        f"{folder} holds no noisy measurements: name a TopDown release, its folder measurements/, or the Bureau's "
        "files (a folder with US_Person_PL_PROD)"
    )


def _digest(*content: Any) -> str:
    """Return a digest that also names the code, the libraries and the boot: what is kept is not flushed to disk."""
    boot = BOOT_ID.read_text() if BOOT_ID.exists() else ""
    return sha256(json.dumps([code_digest(), versions(), boot, *content], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class ReleasedMeasurements:
    """The measurements of a release of das-flows. given: its folder measurements/, or the release."""

    given: Path

    @cached_property
    def folder(self) -> Path:
        """The folder measurements/."""
        if (self.given / SETTINGS_FILE).exists():
            return self.given
        with reading(self.given):
            return path_in(self.given, f"{FOLDER}/{SETTINGS_FILE}").parent

    @cached_property
    def _described(self) -> Description:
        with reading(self.folder):
            return read_description(self.folder)

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction of the states."""
        return self._described.design.jurisdiction

    @property
    def states(self) -> tuple[str, ...]:
        """The states that are there."""
        return self._described.validated.states

    @property
    def origin(self) -> Origin:
        """The run that measured, or the Bureau where its files were imported."""
        return self._described.origin

    @property
    def banners(self) -> tuple[str, ...]:
        """Whose product this is not, whether the persons are made up, and the noise is not normal."""
        pure = self._described.design.definition == "puredp"
        return (*_banners(self.origin, self._described.validated.mark), *(PURE,) * pure)

    @property
    def release(self) -> Path | None:
        """The release, if it was given."""
        return self.given if self.folder != self.given else None

    def digest(self, state: str) -> str:
        """Digest the description and the state's files."""
        design, names = self._described.design, [SETTINGS_FILE, f"{BLOCKS_FOLDER}/{state}.parquet"]
        for product in design.products:
            levels = design.settings[product].levels
            names += [f"{product}/{level}/{state}.parquet" for level in levels if level != US]
        with reading(self.folder):
            return _digest(state, [(name, file_digest(path_in(self.folder, name))) for name in names])

    def open(
        self, path: Path, workers: Workers, changes: Mapping[str, Any], only: Sequence[str] = ()
    ) -> PublishedSource:
        """Read and validate the measurements."""
        from tasks.top_down.published.release_source import ReleaseSource, open_release

        source = ReleaseSource(path)
        open_release(source, workers, self.folder, changes, only)
        keep_regions(source, str(self.given.parent if self.given.name == FOLDER else self.given))
        return source


@dataclass(frozen=True)
class BureauFiles:
    """Noisy measurement files of a jurisdiction, of those in a folder."""

    folder: Path
    inventory: Inventory
    notes: Faults
    request: Request
    release: Path | None = None

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction of the states."""
        return self.inventory.jurisdictions[0]

    @property
    def states(self) -> tuple[str, ...]:
        """The states that are there."""
        return self.inventory.states

    @property
    def origin(self) -> Origin:
        """The run of das-flows that wrote the files, or the Bureau."""
        footer = self._footer
        return Origin(None if footer is None else footer.run)

    @cached_property
    def _footer(self) -> Footer | None:
        try:
            return self.inventory.written_by
        except ValueError as error:
            raise Refused(f"{self.folder}: {error}") from None

    @property
    def banners(self) -> tuple[str, ...]:
        """Whose product this is not, or whether the persons are made up."""
        return _banners(self.origin, self._footer and self._footer.mark)

    def digest(self, state: str) -> str:
        """Digest the state's files."""
        parts = [(part.name, file_digest(part.path)) for part in self.inventory.parts if part.state[1:] == state]
        return _digest(state, parts, self.request.totals and digest_file(self.request.totals))

    def open(
        self, path: Path, workers: Workers, changes: Mapping[str, Any], only: Sequence[str] = ()
    ) -> PublishedSource:
        """Read and validate the files."""
        from tasks.top_down.published.nmf.read_files import read_files

        source, request = NmfSource(path), self.request
        inventory = self.inventory.of_states(only) if only else self.inventory
        read_files(source, workers, inventory, self.notes, request, changes)
        if request.part_totals and changes.get("estimator") == "gls" and source.validated.nation:
            raise Refused(
                "with --part-totals, --estimator gls takes some states alone, not the nation: its margins would need "
                "how the US level ties the errors of a state's parts. Add --only-state"
            )
        if request.geography is not None:
            keep_regions(source, request.geography)
        return source


def _banners(origin: Origin, mark: MarkName | None) -> tuple[str, ...]:
    return (*([origin.statement] if origin.run is None else []), *marked(mark).values())
