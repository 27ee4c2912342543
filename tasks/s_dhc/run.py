"""The confidential directory of an S-DHC run, by stage.

```
prepared/plan, sources        the configuration and options of the run, its files; public
rows/FILE/NUMBER              rows of a chunk of a file, by bucket                   confidential
counts/NUMBER                 exact counts of a bucket of housing units, its faults  confidential
prepared/validated            digests, and the mark of the data                      confidential
counts/exact                  the exact counts of the run, one array                 confidential
noisy/answers                 noisy counts by query
noisy/averages                columns of averages/, by pair of queries
```
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privacy.noise.laws import Law
from tasks.errors import PUT_BACK, Failed, Refused
from tasks.lifecycle.authorization import read_authorization
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import RunDirectory
from tasks.records.records import RecordFile
from tasks.s_dhc.configuration import SDhcConfiguration, TableQuery

PLAN, SOURCES = "prepared/plan", "prepared/sources"
MOST_TAU = 100  # averages are searched in small steps up to it; no household is larger
EXACT, ANSWERS = "counts/exact", "noisy/answers"  # in folders that a run drops with its stages
MOST_BUCKETS = 256


@dataclass(frozen=True)
class SDhcPlan:
    """The choices of a run, public. truncated: count at most tau persons of a unit; only a truth may count all."""

    configuration: SDhcConfiguration
    estimates: bool = False
    truncated: bool = True

    def law(self, query: TableQuery) -> Law:
        """Return the law of a query's noise."""
        return query.query.law(self.configuration.definition, self.configuration.stability)

    def check(self) -> None:
        """Raise Refused for noise that cannot be drawn, and for averages that would take too long to find."""
        self.configuration.check_laws()
        large = [f"{name} has {tau}" for name, tau in self.configuration.tau.items() if tau > MOST_TAU]
        if self.estimates and large:
            raise Refused(
                f"--estimates needs a tau of at most {MOST_TAU}, {', '.join(large)}: lower it, or omit the option"
            )

    def digest(self) -> str:
        """Return the digest of everything besides the data that shapes the release."""
        return self.configuration.digest({"estimates": self.estimates, "truncated": self.truncated})


@dataclass(frozen=True)
class Sources:
    """The files of a run by kind, and their chunks."""

    files: dict[str, RecordFile]
    chunks: dict[str, int]

    @property
    def buckets(self) -> int:
        """The number of buckets of housing units: a power of 2 near the number of chunks, to be about as large."""
        return int(min(MOST_BUCKETS, 1 << (sum(self.chunks.values()) - 1).bit_length()))


def keep_plan(run: RunDirectory, plan: SDhcPlan) -> None:
    """Save the plan of a run, and drop what stages wrote under another plan. Raises Refused for a charged run."""
    given, digest = read_authorization(run), plan.digest()
    if given is not None and given.configuration_digest != digest:
        raise Refused(f"run {run.id} began with another configuration; {PUT_BACK}")
    if (run / PLAN).exists() and plan_of(run).digest() != digest:
        run.drop_stages()
    save_object(run / PLAN, plan)


def plan_of(run: RunDirectory) -> SDhcPlan:
    """Return the plan of a run. Raises Failed before it is saved."""
    try:
        return load_object(run / PLAN, SDhcPlan)
    except FileNotFoundError:
        raise Failed("the run has no plan") from None


def answers_of(run: RunDirectory) -> dict[str, NDArray[np.int64]]:
    """Return the noisy counts of each query, by name: regions x codes x cells."""
    return load_object(run / ANSWERS, dict[str, NDArray[np.int64]])
