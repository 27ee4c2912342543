"""Find published noisy measurements, and read them as a source: of a release of das-flows, or the Bureau's files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from tasks.top_down.published.nmf.faults import Faults
from tasks.top_down.published.nmf.inventory import Inventory, is_published_files, take_inventory
from tasks.top_down.published.nmf.source import NmfSource, Request
from tasks.top_down.published.source import PublishedSource
from tasks.top_down.release.description import BLOCKS_FOLDER, FOLDER, SETTINGS_FILE, read_description, reading
from tasks.top_down.run_plan import US
from tasks.top_down.source import Origin

PURE = "The noise is two-sided geometric: where few draws make up an error, its law is not normal."
NO_FILES = "no folder such as US_Person_PL_PROD is in it, or one to three levels below"
OF_DECLARATION = "declared.json"  # next to a declaration's measurements
OF_FILES = "--only-state, --state-totals, --geography and --check-spine are for such files"


@dataclass(frozen=True)
class Published:
    """Published noisy measurements of a jurisdiction, not yet read.

    states: two digits. banners: what is to be said wherever their estimates are shown. release: the one that they are
    part of, if it was given. files: digests of all that a state's estimates follow from. read: reads and validates them
    into the directory at a path; given fields of the design to replace, and states to be estimated by themselves,
    without the US level, if any are named.
    """

    jurisdiction: Jurisdiction
    states: tuple[str, ...]
    origin: Origin
    banners: tuple[str, ...]
    release: Path | None
    files: Callable[[str], Any]
    read: Callable[[Path, Workers, Mapping[str, Any], Sequence[str]], PublishedSource]

    def reader(self, changes: Mapping[str, Any]) -> Callable[[Path, Workers], PublishedSource]:
        """Return what reads all states, with these changes of the design."""
        return lambda path, workers: self.read(path, workers, changes, ())

    def digest(self, state: str) -> str:
        """Return a digest that also names the code, the libraries and the boot: what is kept is not flushed to disk."""
        boot = BOOT_ID.read_text("utf-8") if BOOT_ID.exists() else ""
        content = [code_digest(), versions(), boot, state, self.files(state)]
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def find_published(folder: Path, request: Request | None = None, states: Sequence[int] = ()) -> list[Published]:
    """Return the measurements in a folder, by jurisdiction.

    request, states: of the Bureau's files; they are read, not the release that they are part of, where one is given.

    Raises Refused where there are none.
    """
    is_release = any((place / SETTINGS_FILE).exists() for place in (folder, folder / FOLDER))
    asked = bool(states) or request not in (None, Request())
    if is_published_files(folder) and (asked or not is_release):
        inventory, notes = take_inventory(folder, tuple(states))
        parts = [inventory.only(name) for name in inventory.jurisdictions] or [inventory]
        return [_of_files(folder, part, notes, request or Request()) for part in parts]
    if is_release and asked:
        raise Refused(f"{folder}: {NO_FILES}; {OF_FILES}")
    if is_release:
        return [_of_release(folder)]
    if any((place / OF_DECLARATION).exists() for place in (folder, folder / FOLDER)):
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


def _of_release(given: Path) -> Published:
    """Return the measurements of a release of das-flows, or in its folder measurements/."""
    alone = (given / SETTINGS_FILE).exists()
    with reading(given):
        folder = given if alone else path_in(given, f"{FOLDER}/{SETTINGS_FILE}").parent
        described = read_description(folder)
    design, origin, validated = described.design, described.origin, described.validated

    def files(state: str) -> list[tuple[str, str]]:
        names = [SETTINGS_FILE, f"{BLOCKS_FOLDER}/{state}.parquet"]
        for product in design.products:
            names += [f"{product}/{level}/{state}.parquet" for level in design.settings[product].levels if level != US]
        with reading(folder):
            return [(name, file_digest(path_in(folder, name))) for name in names]

    def read(path: Path, workers: Workers, changes: Mapping[str, Any], only: Sequence[str]) -> PublishedSource:
        from tasks.top_down.published.release_source import ReleaseSource, open_release

        source = ReleaseSource(path)
        open_release(source, workers, folder, changes, only)
        keep_regions(source, str(given.parent if given.name == FOLDER else given))
        return source

    pure = [PURE] if design.definition == "puredp" else []
    banners = (*_banners(origin, validated.mark), *pure)
    release = None if alone else given
    return Published(design.jurisdiction, validated.states, origin, banners, release, files, read)


def _of_files(folder: Path, inventory: Inventory, notes: Faults, request: Request) -> Published:
    """Return noisy measurement files of a jurisdiction, of those in a folder."""
    with refusing(str(folder)):
        footer = inventory.written_by
    origin = Origin(None if footer is None else footer.run)

    def files(state: str) -> Any:
        parts = [(part.name, file_digest(part.path)) for part in inventory.parts if part.state[1:] == state]
        return parts, request.totals and digest_file(request.totals)

    def read(path: Path, workers: Workers, changes: Mapping[str, Any], only: Sequence[str]) -> PublishedSource:
        from tasks.top_down.published.nmf.read_files import Reading, read_files

        source = NmfSource(path)
        parts = inventory.of_states(only) if only else inventory
        read_files(Reading(source, workers, parts, request, changes, []), notes)
        if request.geography is not None:
            keep_regions(source, request.geography)
        return source

    banners, release = _banners(origin, footer and footer.mark), folder if (folder / MANIFEST).exists() else None
    return Published(
        "pr" if inventory.jurisdictions == ("pr",) else "us", inventory.states, origin, banners, release, files, read
    )


def _banners(origin: Origin, mark: MarkName | None) -> tuple[str, ...]:
    return (*([origin.statement] if origin.run is None else []), *marked(mark).values())
