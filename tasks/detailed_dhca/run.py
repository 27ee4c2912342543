"""The confidential directory of a Detailed DHC-A run: where each stage writes, and what later stages read of it.

Besides what every SafeTab run has (tasks/population_groups/run.py):
```
prepared/                    estimators/NUMBER
noisy/LEVEL/totals           the details of groups, chosen by their noisy totals
noisy/LEVEL/sex_by_age       their noisy tables
noisy/LEVEL/published, estimates, then final, final_estimates: coterminous regions made equal
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.detailed_dhca.configuration import Configuration, Parameters
from tasks.detailed_dhca.person import PERSON
from tasks.population_groups.run import SafeTabRun


@dataclass(frozen=True)
class DetailedRun(SafeTabRun):
    """A handle on a Detailed DHC-A run: only the path of its directory, so that it may be shown and stored."""

    KIND = PERSON
    CONFIGURATION = Configuration

    @property
    def parameters(self) -> Parameters:
        """The parameters that validation saved. Raises Failed where it has not."""
        return super().parameters

    def estimator_path(self, number: int) -> Path:
        """Return the path of one of the run's estimators."""
        return self / f"prepared/estimators/{number:02d}"
