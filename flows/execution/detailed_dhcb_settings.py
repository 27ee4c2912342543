"""The settings of a run of the Detailed DHC-B."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from flows.execution.option import Argument, Option
from flows.execution.safetab_settings import SafeTabSettings
from flows.execution.settings import Location
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from tasks.detailed_dhcb.run import HouseholdRun
    from tasks.population_groups.run import PublicInput


class DetailedDhcbSettings(SafeTabSettings):
    """What one run of the Detailed DHC-B reads, writes and may spend. It releases the US or Puerto Rico."""

    SYSTEM = "detailed-dhcb"
    RUN = "tasks.detailed_dhcb.run:HouseholdRun"

    data: Annotated[Location, Argument("DATA")] = Field(
        description="Data directory (path or URL): household records (.txt or .parquet), GRF-C.txt, and "
        "pop-group-totals.txt where --totals names no release."
    )
    totals: Annotated[Location | None, Option(metavar="RELEASE")] = Field(
        default=None, description="Take the totals of groups from this release of das run, OUT/us or OUT/pr."
    )
    coterminous: Annotated[bool, Option()] = Field(
        default=False, description="Equate coterminous geographies (Algorithm 4)."
    )

    estimates: Annotated[bool, Option()] = Field(
        default=False, description="Also release estimates: both tables count the same households."
    )

    @property
    def directory(self) -> HouseholdRun:
        """The confidential directory of the run, which must have its id."""
        from tasks.detailed_dhcb.run import HouseholdRun

        return HouseholdRun(self.runs / str(self.run_id))

    @property
    def public_inputs(self) -> tuple[PublicInput, ...]:
        """The published totals of groups."""
        from tasks.detailed_dhcb.totals import totals_input

        return (totals_input(self.totals, self.data, self.jurisdiction),)

    @property
    def shaping_options(self) -> dict[str, object]:
        """The options that shape a release; with the parameter files they make the configuration digest."""
        from tasks.inputs.files import exists

        (totals,) = self.public_inputs
        digest = None  # of a file that is not there, which validation reports
        try:
            if exists(totals.files[0]):
                digest = totals.digest
        except OSError as error:
            raise Refused(f"{totals.files[0]}: {error.strerror or 'the file cannot be read'}") from None
        return super().shaping_options | {"totals": digest, **({"estimates": True} if self.estimates else {})}
