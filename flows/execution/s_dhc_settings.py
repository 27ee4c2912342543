"""The settings of a run of the Supplemental DHC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from flows.execution.option import argument, flag, option
from flows.execution.settings import Location, RunSettings
from privacy.accounting.composition import Spend
from spine.settings import Jurisdiction
from tasks.errors import Refused

if TYPE_CHECKING:
    from tasks.s_dhc.run import SDhcPlan


class SDhcSettings(RunSettings):
    """The inputs, outputs and options of one run of the S-DHC. It releases states of the US, or Puerto Rico."""

    SYSTEM = "s-dhc"
    SHOWN = ("estimates",)

    config: Location = argument("CONFIG", "config.json of the S-DHC program: budgets, tau, states.", typed=Path)
    data: Location = argument("DATA", "Data directory (path or URL): persons, units and geo (.csv or .parquet).")
    jurisdiction: Jurisdiction = Field(description="us or pr, as config.json: the release goes to OUT/us or OUT/pr.")
    estimates: bool = option(False, "Also release least-squares estimates, and averages with their intervals.")
    truncated: bool = flag(
        True, "Count all persons of a unit: what truncation removes.", "--untruncated", False, of_truth=True
    )

    @classmethod
    def new_run(cls, run_id: str, values: Mapping[str, Any]) -> Self:
        """Return the settings of the run for the jurisdiction of config.json."""
        from tasks.s_dhc.configuration import read_configuration

        jurisdiction = read_configuration(Path(values["config"])).jurisdiction
        return cls.new(**values, jurisdiction=jurisdiction, run_id=run_id)

    def spends(self) -> dict[str, Spend]:
        """Return the spend of the run, by the name of its release."""
        plan = self.plan()
        plan.check()
        return {self.folder.upper(): plan.configuration.spend()}

    def charged_states(self) -> tuple[str, ...]:
        """Return the states that the run charges."""
        return self.plan().configuration.states

    def plan(self) -> SDhcPlan:
        """Return the plan of the run. Raises Refused if config.json has a fault or another jurisdiction."""
        from tasks.s_dhc.configuration import read_configuration
        from tasks.s_dhc.run import SDhcPlan

        configuration = read_configuration(Path(self.config))
        if configuration.jurisdiction != self.jurisdiction:
            raise Refused(f"{self.config} is of {configuration.jurisdiction}, not of {self.jurisdiction}")
        return SDhcPlan(configuration, self.estimates, self.truncated)

    def configuration_digest(self) -> str:
        """Return the digest of the configuration and options. Raises Refused."""
        return self.plan().digest()
