"""The confidential directory of a SafeTab run, as far as both SafeTabs have it.

```
prepared/                    parameters, geography/, names, points, coterminous, partitions
counts/REGION_TYPE/NUMBER    exact counts of a partition of the blocks          confidential
noisy/LEVEL/STAGE/FIRST      what a stage makes of a piece of a level, by the piece's first region
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tasks.inputs.grf_c import RegionMap, load_region_map
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.files import load_object
from tasks.lifecycle.run_directory import RunDirectory
from tasks.population_groups.levels import Level
from tasks.population_groups.parameters import Parameters


@dataclass(frozen=True)
class SafeTabRun(RunDirectory):
    """A handle on a run that counts population groups: only a path, so that it may be shown and stored.

    CELLS: how many cells a group's table has; a record is in one of them.
    """

    CELLS: ClassVar[int]

    @property
    def parameters_path(self) -> Path:
        """Where validation saves the parameters."""
        return self / "prepared/parameters"

    @property
    def parameters(self) -> Parameters[Any]:
        """The parameters that validation saved. Raises Failed where it has not."""
        try:
            parameters: Parameters[Any] = load_object(self.parameters_path)
        except FileNotFoundError:
            raise Failed("validate: the run was not validated") from None
        return parameters

    @property
    def geography_folder(self) -> Path:
        """Where validation saves the geography; it is there once `region_ids` in it is."""
        return self / "prepared/geography"

    @property
    def geography(self) -> RegionMap:
        """The blocks and regions of the run."""
        return load_region_map(self.geography_folder)

    @property
    def coterminous_path(self) -> Path:
        """The file of the sets of coterminous regions."""
        return self / "prepared/coterminous"

    @property
    def partitions_path(self) -> Path:
        """The file of the partitions of the blocks."""
        return self / "prepared/partitions"

    def counts_folder(self, region_type: str, number: int) -> Path:
        """Return the folder of the exact counts of a partition."""
        return self / f"counts/{region_type}/{number:05d}"

    def noisy_folder(self, level: Level, stage: str, first: int) -> Path:
        """Return the folder of a stage's output for the piece of a level that begins with region `first`."""
        return self / f"noisy/{level.slug}/{stage}/{first:06d}"
