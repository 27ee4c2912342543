"""The settings of a run of the Detailed DHC-A."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from flows.execution.option import Argument, Option
from flows.execution.safetab_settings import SafeTabSettings
from flows.execution.settings import Location

if TYPE_CHECKING:
    from tasks.detailed_dhca.run import DetailedRun


class DetailedDhcaSettings(SafeTabSettings):
    """What one run of the Detailed DHC-A reads, writes and may spend. It releases the US or Puerto Rico."""

    SYSTEM = "detailed-dhca"
    RUN = "tasks.detailed_dhca.run:DetailedRun"

    data: Annotated[Location, Argument("DATA")] = Field(
        description="Data directory (path or URL): person records (.txt or .parquet) and GRF-C.txt."
    )
    estimates: Annotated[bool, Option()] = Field(
        default=False, description="Also release estimates from both noisy answers: their errors are smaller."
    )
    spine: Annotated[bool, Option()] = Field(default=True, description="Also optimize the geographic spine.")

    @property
    def directory(self) -> DetailedRun:
        """The confidential directory of the run, which must have its id."""
        from tasks.detailed_dhca.run import DetailedRun

        return DetailedRun(self.runs / str(self.run_id))

    @property
    def shaping_options(self) -> dict[str, object]:
        """The options that shape a release; with the parameter files they make the configuration digest."""
        return super().shaping_options | ({"estimates": True} if self.estimates else {})
