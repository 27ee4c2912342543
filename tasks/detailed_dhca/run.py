"""The confidential directory of a Detailed DHC-A run: where each stage writes, and what later stages read of it.

```
prepared/   parameters, person_file, geography/, validated, coterminous, partitions, estimators/NUMBER
persons/NUMBER               encoded person records of a chunk                  confidential
counts/REGION_TYPE/NUMBER    exact counts of a partition of the blocks          confidential
noisy/LEVEL/totals, sex_by_age, published, estimates, final, final_estimates
                             by the first region of a piece of the level
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.detailed_dhca.person_file import PersonFile
from tasks.inputs.configuration import Level
from tasks.inputs.grf_c import RegionMap, load_region_map
from tasks.inputs.parameters import Parameters
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.files import load_object
from tasks.lifecycle.run_directory import RunDirectory


@dataclass(frozen=True)
class Validated:
    """What later stages need to know of a valid input.

    `input_digest` and `records_digest` (of the file of person records alone) are confidential: they go to the ledger,
    the first into key derivation too, and are never shown or stored outside the confidential directory. The rest is
    public. `synthetic` says that a mark covers the files; what the mark is worth says tasks/lifecycle/reservation.py.
    """

    input_digest: str
    records_digest: str
    geography_digest: str
    synthetic: bool
    blocks: int


@dataclass(frozen=True)
class DetailedRun(RunDirectory):
    """A handle on a Detailed DHC-A run: only the path of its directory, so that it may be shown and stored."""

    @property
    def parameters_path(self) -> Path:
        """Where validation saves the parameters."""
        return self / "prepared/parameters"

    @property
    def parameters(self) -> Parameters:
        """The parameters that validation saved. Raises Failed where it has not."""
        try:
            parameters: Parameters = load_object(self.parameters_path)
        except FileNotFoundError:
            raise Failed("validate: the run was not validated") from None
        return parameters

    @property
    def person_file_path(self) -> Path:
        """Where validation saves what it knows of the file of person records."""
        return self / "prepared/person_file"

    @property
    def person_file(self) -> PersonFile:
        """The file of person records, and what it is checked against."""
        file: PersonFile = load_object(self.person_file_path)
        return file

    @property
    def geography_folder(self) -> Path:
        """Where validation saves the geography; it is there once `region_ids` in it is."""
        return self / "prepared/geography"

    @property
    def geography(self) -> RegionMap:
        """The blocks and regions of the run."""
        return load_region_map(self.geography_folder)

    @property
    def validated_path(self) -> Path:
        """Where validation says, last of all, that the input is valid."""
        return self / "prepared/validated"

    @property
    def validated(self) -> Validated:
        """What validation says of the input."""
        validated: Validated = load_object(self.validated_path)
        return validated

    @property
    def coterminous_path(self) -> Path:
        """Where the sets of coterminous regions lie."""
        return self / "prepared/coterminous"

    @property
    def partitions_path(self) -> Path:
        """Where the partitions of the blocks lie."""
        return self / "prepared/partitions"

    def counts_folder(self, region_type: str, number: int) -> Path:
        """Where the exact counts of a partition lie."""
        return self / f"counts/{region_type}/{number:05d}"

    def details_folder(self, level: Level, first: int) -> Path:
        """Where the details of a piece of a level lie, chosen by their noisy totals."""
        return self._noisy(level, "totals", first)

    def tables_folder(self, level: Level, first: int) -> Path:
        """Where the noisy tables of a piece of a level lie."""
        return self._noisy(level, "sex_by_age", first)

    def published_folder(self, level: Level, first: int) -> Path:
        """Where the published groups of a piece of a level lie."""
        return self._noisy(level, "published", first)

    def estimates_folder(self, level: Level, first: int) -> Path:
        """Where the estimates of the published groups of a piece of a level lie."""
        return self._noisy(level, "estimates", first)

    def final_folder(self, level: Level, first: int) -> Path:
        """Where the groups of a piece of a level lie that will be released, coterminous regions made equal."""
        return self._noisy(level, "final", first)

    def final_estimates_folder(self, level: Level, first: int) -> Path:
        """Where the estimates lie that will be released, coterminous regions made equal."""
        return self._noisy(level, "final_estimates", first)

    def estimator_path(self, number: int) -> Path:
        """Where one of the run's estimators lies."""
        return self / f"prepared/estimators/{number:02d}"

    def _noisy(self, level: Level, stage: str, first: int) -> Path:
        return self / f"noisy/{level.slug}/{stage}/{first:06d}"
