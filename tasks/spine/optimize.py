"""Optimize the geographic spine of a run: from a block table to a directory with the optimized spine and its report.

Public data only. The stages are plain functions of paths and settings, so they run in this process, in a Dask worker,
or spread over workers by state.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import fsspec

from spine.settings import Jurisdiction, SpineSettings, settings_for
from tasks.errors import Refused
from tasks.geography.blocks.geography import needed
from tasks.lifecycle.new_folder import new_folder
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.staging import SEE_SPINE
from tasks.lifecycle.workers import Workers, map_public
from tasks.records.files import read_bytes
from tasks.records.marks import GRF_FILE
from tasks.records.tables import split_header
from tasks.spine.first_pass import StateSpineSummary, summarize_state
from tasks.spine.prepare import Prepared, prepare
from tasks.spine.write import SpineSummary, write_spine

PRODUCT = "pl94-persons"


def optimize_spine(prepared: Prepared, workers: Workers | None = None) -> SpineSummary:
    """Build, measure and optimize the spine of prepared blocks and write it to its folder."""
    return write_spine(prepared, summarize_states(prepared, workers), workers)


def summarize_states(prepared: Prepared, workers: Workers | None) -> list[StateSpineSummary]:
    """Build the spines of every state; return the summaries that the root needs."""
    return map_public(workers, "spine", summarize_state, [(path, prepared.plan) for path in prepared.paths])


def build_spine(
    _run: RunDirectory, workers: Workers, data: str, jurisdiction: Jurisdiction, states: tuple[str, ...], folder: Path
) -> str:
    """Write the optimized spine of a Detailed DHC-A run's blocks to FOLDER; return its line for the manifest.

    Reads only GRF-C, which is public. A spine that cannot be made does not stop the release.
    """
    shutil.rmtree(folder, ignore_errors=True)  # from an earlier try
    settings = settings_for(PRODUCT, jurisdiction)
    path = f"{data.rstrip('/')}/{GRF_FILE}"
    header = split_header(read_bytes(path, 0, 65536).partition(b"\n")[0])
    if missing := spine_columns_missing(header, settings):
        return f"skipped: GRF-C lacks {', '.join(missing)}"
    if not isinstance(fsspec.url_to_fs(path)[0], fsspec.get_filesystem_class("file")):
        return "skipped: GRF-C is not on a file system of the workers"
    try:
        with new_folder(folder) as made:
            prepared = prepare(Path(path), made, settings, states=[int(state) for state in states])
            summary = optimize_spine(prepared, workers)
    except Refused as refused:
        return f"skipped: {refused}"
    return f"{PRODUCT}, {summary.variant}: {summary.blocks} blocks, {SEE_SPINE}"


def spine_columns_missing(grfc_header: list[str], settings: SpineSettings) -> list[str]:
    """Return the GRF-C columns that a spine with these settings needs and this header lacks."""
    return [name for name in needed(settings) if name not in grfc_header]
