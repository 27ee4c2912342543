"""The settings of a run of the Supplemental DHC."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from flows.execution.option import Argument, Option
from flows.execution.settings import Location, RunSettings
from spine.settings import Jurisdiction
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from tasks.s_dhc.run import Plan


class SDhcSettings(RunSettings):
    """What one run of the S-DHC reads, writes and may spend. It releases states of the US, or Puerto Rico."""

    SYSTEM = "s-dhc"

    config: Annotated[Location, Argument("CONFIG", typed=Path)] = Field(
        description="config.json of the S-DHC program: budgets, tau, states."
    )
    data: Annotated[Location, Argument("DATA")] = Field(
        description="Data directory (path or URL): persons, units and geo (.csv or .parquet)."
    )
    jurisdiction: Jurisdiction = Field(description="us or pr, as config.json: the release goes to OUT/us or OUT/pr.")
    estimates: Annotated[bool, Option()] = Field(
        default=False, description="Also release least-squares estimates, and averages with their intervals."
    )
    truncated: bool = Field(default=True, description="Count at most tau persons of a unit; only a truth may not.")

    @property
    def folder(self) -> str:
        """The folder of OUT that the release goes to."""
        return self.jurisdiction

    def plan(self) -> Plan:
        """Return the plan of the run. Raises Refused where config.json has a fault or is of another jurisdiction."""
        from tasks.s_dhc.configuration import read_configuration
        from tasks.s_dhc.run import Plan

        configuration = read_configuration(Path(self.config))
        if configuration.jurisdiction != self.jurisdiction:
            raise Refused(f"{self.config} is of {configuration.jurisdiction}, not of {self.jurisdiction}")
        return Plan(configuration, self.estimates, self.truncated)

    def configuration_digest(self) -> str:
        """Return the digest of the configuration and options. Raises Refused."""
        return self.plan().digest()
