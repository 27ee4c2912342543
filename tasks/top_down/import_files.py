"""`das tda import`: the Census Bureau's noisy measurement files in das-flows' own layout, for repeated use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tasks.lifecycle.commit import check_out, move_into_place
from tasks.lifecycle.files import fsync_tree
from tasks.lifecycle.staging import clear_staging, staging
from tasks.lifecycle.workers import Workers
from tasks.top_down.published.nmf.faults import Faults
from tasks.top_down.published.nmf.inventory import Inventory
from tasks.top_down.published.nmf.read_files import read_files
from tasks.top_down.published.nmf.request import Request
from tasks.top_down.release.measurements import write_own_layout
from tasks.top_down.run import TopDownRun


def import_files(
    runs: Sequence[TopDownRun], workers: Workers, inventory: Inventory, notes: Faults, request: Request, out: Path
) -> list[Path]:
    """Write the measurements of files as OUT/us/measurements and OUT/pr/measurements, whole or not at all.

    runs: one for each jurisdiction that is there. Blocks stay where they were measured.

    Raises
    ------
    Refused
        where the files have a fault: the findings are in the run's findings.json, and nothing is written.
    """
    places, imports = [], list(zip(runs, inventory.jurisdictions or ("us",), strict=True))
    for run, jurisdiction in imports:
        read_files(run, workers, inventory.only(jurisdiction), notes, replace(request, as_tabulated=False))
        check_out(run, out, jurisdiction)
    for run, jurisdiction in imports:
        out.mkdir(parents=True, exist_ok=True)
        staged = staging(run, out, jurisdiction)
        write_own_layout(run, workers, staged)
        fsync_tree(staged)
        move_into_place(staged, out / jurisdiction)
        clear_staging(run, out, jurisdiction)
        places.append(out / jurisdiction)
    return places
