"""The confidential directory of a Detailed DHC-A run: where each stage writes, and what later stages read of it.

Besides what every SafeTab run has (tasks/population_groups/run.py):
```
prepared/                    person_file, validated, estimators/NUMBER
persons/NUMBER               encoded person records of a chunk                  confidential
noisy/LEVEL/totals           the details of groups, chosen by their noisy totals
noisy/LEVEL/sex_by_age       their noisy tables
noisy/LEVEL/published, estimates, then final, final_estimates: coterminous regions made equal
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from privacy.accounting.journal import MarkName
from tasks.detailed_dhca.parameters import Parameters
from tasks.detailed_dhca.person_file import CELLS, PersonFile
from tasks.lifecycle.files import load_object
from tasks.population_groups.run import SafeTabRun


@dataclass(frozen=True)
class Validated:
    """The facts about a valid input that later stages need.

    `input_digest` and `records_digests` (of the file of person records, and of each state's persons) are confidential:
    they go to the ledger, the first into key derivation too, and are never shown or stored outside the confidential
    directory. The rest is public. `mark` is the one that covers the files; tasks/lifecycle/reservation.py decides
    what it is worth.
    """

    input_digest: str
    records_digests: tuple[str, ...]
    geography_digest: str
    mark: MarkName | None
    blocks: int


@dataclass(frozen=True)
class DetailedRun(SafeTabRun):
    """A handle on a Detailed DHC-A run: only the path of its directory, so that it may be shown and stored."""

    CELLS = CELLS

    @property
    def parameters(self) -> Parameters:
        """The parameters that validation saved. Raises Failed where it has not."""
        return super().parameters

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
    def validated_path(self) -> Path:
        """The file that validation writes last, for a valid input."""
        return self / "prepared/validated"

    @property
    def validated(self) -> Validated:
        """The result of validation."""
        validated: Validated = load_object(self.validated_path)
        return validated

    def estimator_path(self, number: int) -> Path:
        """Return the path of one of the run's estimators."""
        return self / f"prepared/estimators/{number:02d}"
