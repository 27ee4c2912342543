"""The spine branch of a Detailed DHC-A run: the same run's public geography through spine optimization.

It has no access to the confidential directory, and its failure does not stop the release.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import fsspec

from spine.settings import Jurisdiction, settings_for
from tasks.inputs.files import read_bytes
from tasks.inputs.synthetic_mark import GRF_FILE
from tasks.inputs.tables import split_header
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.staging import SEE_SPINE
from tasks.lifecycle.workers import Workers
from tasks.spine.optimize import on_client, optimize_spine, spine_columns_missing
from tasks.spine.prepare import prepare

PRODUCT = "pl94-persons"


def build_spine(workers: Workers, data: str, jurisdiction: Jurisdiction, states: tuple[str, ...], folder: Path) -> str:
    """Write the optimized spine of a run's blocks to FOLDER; return the line about it for the manifest.

    Public: reads GRF-C and nothing else.
    """
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier try
    settings = settings_for(PRODUCT, jurisdiction)
    path = f"{data.rstrip('/')}/{GRF_FILE}"
    header = split_header(read_bytes(path, 0, 65536).partition(b"\n")[0])
    if missing := spine_columns_missing(header, settings):
        return f"skipped: GRF-C lacks {', '.join(missing)}"
    if isinstance(fsspec.url_to_fs(path)[0], fsspec.get_filesystem_class("file")):
        geography = Path(path)
    else:
        return "skipped: GRF-C is not on a file system of the workers"
    try:
        map_states = on_client(workers.client, partial(workers.progress, "spine"))
        prepared = prepare(geography, folder, settings, states=[int(state) for state in states])
        summary = optimize_spine(prepared, map_states)
    except Refused as refused:
        return f"skipped: {refused}"
    return f"{PRODUCT}, {summary.variant}: {summary.blocks} blocks, {SEE_SPINE}"
