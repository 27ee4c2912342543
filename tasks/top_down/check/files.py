"""Check the names of a TopDown release's files against its manifest (docs/spec/files.md#topdown-release)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tasks.lifecycle.check import Check
from tasks.top_down.areas import FOLDERS, OFF_SPINE, TABULATED
from tasks.top_down.measure.description import BLOCKS_FOLDER, FOLDER, SETTINGS_FILE
from tasks.top_down.run_plan import US


def check_names(release: Path, manifest: Mapping[str, Any]) -> Check:
    """Compare the names of the files with those that the levels, states and options call for."""
    present, needed = set(manifest["files"]), set(required(manifest))
    allowed = needed | set(_optional(manifest))
    faults = [f"{name} is missing" for name in sorted(needed - present)]
    faults += [f"{name} is no file of such a release" for name in sorted(present - allowed)]
    return Check("names of all files", f"{len(needed)} files", tuple(faults))


def spine_files(manifest: Mapping[str, Any], product: str) -> Iterator[tuple[str, str]]:
    """Yield level and state of every file of the spine's geounits, top first; of the US level US twice."""
    for level in manifest["products"][product]["geounits"]:
        for state in [US] if level == US else manifest["states"]:
            yield level, state


def required(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the required files."""
    measured = has_measurements(manifest)
    yield "report.html"
    if measured:
        yield f"{FOLDER}/{SETTINGS_FILE}"
        yield from (f"{FOLDER}/{BLOCKS_FOLDER}/{state}.parquet" for state in manifest["states"])
    for product in manifest["products"]:
        for level, state in spine_files(manifest, product):
            for folder in ("histograms", "invariants", *([FOLDER] if measured else [])):
                yield f"{folder}/{product}/{level}/{state}.parquet"
        for state in manifest["states"]:
            yield from (f"histograms/{product}/{FOLDERS[family]}/{state}.parquet" for family in TABULATED)
            yield f"mdf/{state}_{product}.parquet"
            if manifest["options"]["microdata"] == "text":
                yield f"mdf/{state}_{product}.txt"


def has_measurements(manifest: Mapping[str, Any]) -> bool:
    """Return whether the noisy measurements are released."""
    return bool(manifest["options"]["measurements"]) and bool(manifest["spent"])


def _optional(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the optional files: of entities, which not every state has, and of margins."""
    for product, entry in manifest["products"].items():
        for state in manifest["states"]:
            yield from (f"histograms/{product}/{FOLDERS[family]}/{state}.parquet" for family in OFF_SPINE)
            if "margins" in entry:
                folders = (*entry["geounits"], *FOLDERS.values())
                yield from (f"margins/{product}/{folder}/{state}.parquet" for folder in folders)
