"""The confidential directory of a SafeTab run, as far as both SafeTabs share it.

```
prepared/                    parameters, records, validated, geography/, regions, coterminous, partitions
records/NUMBER               encoded records of a chunk                         confidential
counts/REGION_TYPE/NUMBER    exact counts of a partition of the blocks          confidential
noisy/LEVEL/STAGE/FIRST      a stage's output for a piece of a level, by the piece's first region
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spine.settings import Jurisdiction
from tasks.errors import Failed
from tasks.geography.grf_c import RegionMap, load_region_map
from tasks.lifecycle.files import load_object
from tasks.lifecycle.reservation import Claim, Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.records.files import digest_file
from tasks.records.findings import Finding
from tasks.safetab.configuration import SafeTabConfiguration
from tasks.safetab.levels import Level
from tasks.safetab.parameters import Parameters, configuration_digest, planned_spend
from tasks.safetab.record_kind import GroupRecords, RecordKind

RECORDS, COTERMINOUS = "prepared/records", "prepared/coterminous"
GEOGRAPHY = "prepared/geography"  # a folder; complete once it has `region_ids`


@dataclass(frozen=True)
class ValidatedSafeTab(Input):
    """The facts about a valid input that later stages need.

    other_digests: those of further public inputs, by name.
    """

    geography_digest: str
    blocks: int
    other_digests: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SafeTabRun(RunDirectory):
    """A handle on a run that counts population groups: only a path, so it may be shown and stored.

    KIND: its records. CONFIGURATION: the class of its config.json.
    """

    KIND: ClassVar[RecordKind]
    CONFIGURATION: ClassVar[type[SafeTabConfiguration]]

    @property
    def parameters_path(self) -> Path:
        """The path where validation saves the parameters."""
        return self / "prepared/parameters"

    @property
    def parameters(self) -> Parameters[Any]:
        """The parameters that validation saved. Raises Failed before validation."""
        declared: Any = Parameters
        try:
            parameters: Parameters[Any] = load_object(self.parameters_path, declared[self.CONFIGURATION])
        except FileNotFoundError:
            raise Failed("validate: the run was not validated") from None
        return parameters

    @property
    def records(self) -> GroupRecords:
        """The file of records, and what it is checked against."""
        return load_object(self / RECORDS, GroupRecords)

    @property
    def validated(self) -> ValidatedSafeTab:
        """The result of validation."""
        return load_object(self / VALIDATED, ValidatedSafeTab)

    @property
    def geography(self) -> RegionMap:
        """The blocks and regions of the run."""
        return load_region_map(self / GEOGRAPHY)

    @property
    def coterminous_sets(self) -> dict[str, NDArray[np.int64]]:
        """By region type, the coterminous set of each region, -1 for a region without one."""
        return load_object(self / COTERMINOUS, dict[str, NDArray[np.int64]])

    def counts_folder(self, region_type: str, number: int) -> Path:
        """Return the folder of the exact counts of a partition."""
        return self / f"counts/{region_type}/{number:05d}"

    def noisy_folder(self, level: Level, stage: str, first: int) -> Path:
        """Return the folder of a stage's output for the piece of a level whose first region is `first`."""
        return self / f"noisy/{level.slug}/{stage}/{first:06d}"


def claim(run: SafeTabRun, jurisdiction: Jurisdiction, options: dict[str, object]) -> Claim:
    """Return the claim of a validated run: the spend of all its levels. Raises Refused for an infinite budget."""
    parameters = run.parameters
    configuration, digest = parameters.configuration, configuration_digest(parameters.digests, options)
    spent = planned_spend(configuration, jurisdiction)
    return Claim(run, configuration.states(jurisdiction), spent, digest, run.validated)


@dataclass(frozen=True)
class PublicInput:
    """A public input besides parameters and GRF-C, such as published totals of groups.

    name: in findings and digests. files: their paths, the same at every call.
    read: checks the files against the run's parameters and a geography, saves what the stages need in the run's
    directory, and returns findings; called again after an interrupted try.
    """

    name: str
    files: tuple[str, ...]
    read: Callable[[SafeTabRun, RegionMap], list[Finding]]

    @property
    def digest(self) -> str:
        """One digest of all files. Raises OSError."""
        return sha256(" ".join(map(digest_file, self.files)).encode()).hexdigest()
