"""Open what was measured: the measurements of a release of das-flows, or the Bureau's noisy measurement files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tasks.inputs.files import digest_file
from tasks.lifecycle.digests import file_digest
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import marked
from tasks.lifecycle.process import code_digest, versions
from tasks.lifecycle.received import NotOfRelease, path_in
from tasks.lifecycle.run_directory import BOOT_ID
from tasks.top_down.measure.description import (
    BLOCKS_FOLDER,
    FOLDER,
    SETTINGS_FILE,
    UNREADABLE,
    Description,
    read_description,
)
from tasks.top_down.published.nmf.inventory import Inventory, is_published_files, take_inventory
from tasks.top_down.published.nmf.origin import Origin
from tasks.top_down.run_plan import US

if TYPE_CHECKING:
    from tasks.lifecycle.workers import Workers
    from tasks.top_down.run import TopDownRun

OF_THE_BUREAU = "the noisy measurements of the redistricting data that the Census Bureau published"
OF_A_RUN = "the noisy measurements of run {} of das-flows"
PURE = "The noise is two-sided geometric: where few draws make up an error, its law is not normal."


class Source(Protocol):
    """Published noisy measurements."""

    @property
    def states(self) -> tuple[str, ...]:
        """The states that are there, two digits."""

    @property
    def name(self) -> str:
        """What the source is, in a sentence's words."""

    @property
    def banners(self) -> tuple[str, ...]:
        """What its estimates are not."""

    @property
    def release(self) -> Path | None:
        """The release whose counts are beside the measurements."""

    def digest(self, state: str) -> str:
        """Return the digest of everything that a state's estimates follow from."""

    def open(self, run: TopDownRun, workers: Workers, states: Sequence[str]) -> None:
        """Prepare a run directory for these states."""


def open_source(folder: Path, totals: str | None) -> Source:
    """Return the measurements in a folder.

    totals: of the Bureau's files, declared populations in place of those of 2020. Raises Refused where there are none.
    """
    for place in (folder / FOLDER, folder):
        if (place / SETTINGS_FILE).exists():
            if totals is not None:
                raise Refused("--totals is for the Census Bureau's files: a release declares its own")
            return OwnMeasurements(place, folder if place != folder else None)
    if is_published_files(folder):
        return BureauFiles(folder, totals)
    if (folder / "manifest.json").exists():
        raise Refused(
            f"{folder} is a release without measurements/: name the noisy measurements that it was estimated from, and "
            "the release with --published"
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
class OwnMeasurements:
    """The folder measurements/ of a release of das-flows, and the release if it is in one."""

    folder: Path
    release: Path | None

    @cached_property
    def _described(self) -> Description:
        try:
            return read_description(self.folder)
        except NotOfRelease as fault:
            raise Refused(f"{self.folder}: {fault}; give the folder measurements/ of a TopDown release") from None
        except UNREADABLE as error:
            raise Refused(f"{self.folder / SETTINGS_FILE} is damaged ({type(error).__name__})") from None

    @property
    def states(self) -> tuple[str, ...]:
        """The states that are there."""
        return self._described.validated.states

    @property
    def name(self) -> str:
        """The run that measured."""
        return OF_A_RUN.format(self._described.run)

    @property
    def banners(self) -> tuple[str, ...]:
        """Whether the persons are made up, and the noise is not normal."""
        pure = self._described.design.definition == "puredp"
        return (*marked(self._described.validated.mark).values(), *(PURE,) * pure)

    def digest(self, state: str) -> str:
        """Digest the description and the state's files."""
        design, names = self._described.design, [SETTINGS_FILE, f"{BLOCKS_FOLDER}/{state}.parquet"]
        for product in design.products:
            levels = design.settings[product].levels
            names += [f"{product}/{level}/{state}.parquet" for level in levels if level != US]
        try:
            return _digest(state, [(name, file_digest(path_in(self.folder, name))) for name in names])
        except NotOfRelease as fault:
            raise Refused(f"{self.folder}: {fault}; give the folder measurements/ of a TopDown release") from None

    def open(self, run: TopDownRun, workers: Workers, states: Sequence[str]) -> None:
        """Validate the measurements of these states, and build their spines."""
        from tasks.top_down.measure.imported import make_spines
        from tasks.top_down.measure.published import open_published, validate_measurements

        open_published(run, self.folder, {}, only=states)
        make_spines(run, workers)
        validate_measurements(run, workers)


@dataclass(frozen=True)
class BureauFiles:
    """Noisy measurement files of the redistricting product. totals: a file of declared populations."""

    folder: Path
    totals: str | None
    release: Path | None = None

    @cached_property
    def _inventory(self) -> Inventory:
        return take_inventory(self.folder)[0]

    @property
    def states(self) -> tuple[str, ...]:
        """The states that are there."""
        return self._inventory.states

    @cached_property
    def _origin(self) -> Origin | None:
        """The run of das-flows that wrote the files; None where the Bureau did."""
        try:
            return self._inventory.origin
        except ValueError as error:
            raise Refused(f"{self.folder}: {error}") from None

    @property
    def name(self) -> str:
        """Whose measurements these are."""
        return OF_THE_BUREAU if self._origin is None else OF_A_RUN.format(self._origin.run)

    @property
    def banners(self) -> tuple[str, ...]:
        """Whose product this is not, or whether the persons are made up."""
        from tasks.top_down.release.manifest import OF_FILES  # imports what draws charts

        return (OF_FILES,) if self._origin is None else tuple(marked(self._origin.mark).values())

    def digest(self, state: str) -> str:
        """Digest the state's files."""
        parts = [(part.name, file_digest(part.path)) for part in self._inventory.parts if part.state[1:] == state]
        return _digest(state, parts, self.totals and digest_file(self.totals))

    def open(self, run: TopDownRun, workers: Workers, states: Sequence[str]) -> None:
        """Read and validate the files of these states."""
        from tasks.top_down.published.nmf.read_files import read_files
        from tasks.top_down.published.nmf.request import Request

        inventory, notes = take_inventory(self.folder, tuple(map(int, states)))
        read_files(run, workers, inventory, notes, Request(self.totals, None, {}, keep_answers=len(states) == 1))
