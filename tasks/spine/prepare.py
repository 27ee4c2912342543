"""The first stage of a spine: read and validate the blocks, and store them by state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spine.allocations import Allocation
from spine.production import allocation_for
from spine.settings import SpineSettings
from tasks.errors import Refused, refusing
from tasks.geography.blocks.files import input_digests
from tasks.geography.blocks.geography import read_geography
from tasks.lifecycle.files import save_object
from tasks.memory import return_memory
from tasks.spine.first_pass import SpinePlan

# Cells with standard errors by default; every geounit reports the first cell's.
MARGINALS = {
    "pl94-persons": ("total", "hispanic*cenrace"),
    "pl94-units": ("detailed",),
    "dhc-persons": ("hispanic*sex",),
    "dhc-units": ("tenvacgq",),
}


@dataclass(frozen=True)
class Prepared:
    """A spine whose blocks are stored by state in `folder`/scratch.

    states: their codes, ascending. inputs: digests by file.
    """

    folder: Path
    plan: SpinePlan
    states: tuple[int, ...]
    notes: tuple[str, ...]
    inputs: Mapping[str, str]

    @property
    def paths(self) -> list[Path]:
        """Return the path of each state's blocks."""
        return [self.folder / "scratch" / f"{state:02d}" for state in self.states]


def prepare(
    geography: Path | str,
    folder: Path,
    settings: SpineSettings,
    *,
    allocation: Allocation | None = None,
    states: Sequence[int] = (),
    marginals: Sequence[str] = (),
    extra: str | None = None,
) -> Prepared:
    """Read and validate the blocks of a geography, and store them by state in the folder for the spine.

    geography: GRF-C, P.L. 94-171 or CSV, a file or directory (`tasks.geography.blocks.geography`). allocation: the
    budget's shares; by default the production run's. states: only these FIPS codes. marginals: cells to report standard
    errors of. extra: a table of prims and living quarters by block (docs/spec/files.md#block-tables).

    Raises Refused for bad input.
    """
    blocks, notes = read_geography(geography, settings, states, extra)
    codes, first = np.unique(blocks.state, return_index=True)
    allocation = allocation or allocation_for(settings)
    if tuple(allocation.levels) != settings.levels or allocation.definition != settings.definition:
        raise Refused(
            f"the allocation is for {allocation.definition} on {', '.join(allocation.levels)}; "
            f"the settings are for {settings.definition} on {', '.join(settings.levels)}"
        )
    plan = SpinePlan(settings, allocation, tuple(marginals) or MARGINALS[settings.product], rooted=len(codes) == 1)
    with refusing():
        plan.parts("optimized")
    return_memory()  # of the reader, before states are processed one by one
    prepared = Prepared(folder, plan, tuple(codes.tolist()), tuple(notes), input_digests(str(geography), extra))
    for path, start, stop in zip(prepared.paths, first, [*first[1:], len(blocks)], strict=True):
        save_object(path, blocks.take(np.arange(start, stop)))
    return prepared
