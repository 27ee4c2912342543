"""The parameters of a bottom-up run, as Prefect shows and stores them: paths and public numbers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from flows.execution.cluster import ClusterSettings
from flows.execution.settings import RUN_ID, Folder, Location, Settings, state_home
from privacy.estimation.calibration import Method
from tasks.bottom_up.domain import read_domain, read_totals
from tasks.bottom_up.measure import Plan, Sampler
from tasks.inputs.configuration import exact_number as parse_number
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.run_directory import BOTTOM_UP_SETTINGS


def exact_number(text: str) -> str:
    """Check a number that is kept as it was written, `0.5` or `1/2`. Raises ValueError."""
    try:
        parse_number(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from None
    return text


Exact = Annotated[str, AfterValidator(exact_number)]


class BottomUpSettings(Settings):
    """What one bottom-up run reads, writes and may spend: paths and public numbers, as Prefect shows them."""

    FILE = BOTTOM_UP_SETTINGS
    COMMAND = "das bottom-up run"

    table: Location = Field(description="The table: text or Parquet, by path or URL.")
    domain: Location = Field(description="The declared domain, a JSON file.")
    out: Folder = Field(description="Where the release goes, as OUT/bottom-up.")
    epsilon: Exact = Field(description="Privacy-loss budget of the histogram, exact.")
    sampler: Sampler = "exact"
    totals: Location | None = Field(default=None, description="Published totals to calibrate to.")
    calibration: Method = "additive"
    tolerance: Exact = Field(default="0", description="How far a consistent total may be from the data.")
    margins: tuple[tuple[str, ...], ...] | None = Field(default=None, description="Margins; by default each factor.")
    clip: bool = Field(default=False, description="Publish no negative count.")
    account: str | None = None
    ledger: Location = Field(default_factory=lambda: str(state_home() / "ledger.sqlite"))
    state: Location = Field(default_factory=lambda: str(state_home()))
    run_id: str | None = Field(default=None, pattern=rf"^{RUN_ID}$")
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)

    @property
    def folder(self) -> str:
        """The folder of OUT that the release goes to."""
        return "bottom-up"

    @property
    def charging(self) -> Charging:
        """Where the spend is charged."""
        return Charging(self.account, Path(self.ledger))

    @property
    def runs(self) -> Path:
        """The folder of the confidential run directories."""
        return Path(self.state) / "runs"

    def plan(self) -> Plan:
        """What the run is to do, from the public files. Raises Refused."""
        domain = read_domain(Path(self.domain))
        each = ((), *((name,) for name in (*domain.factors, *domain.groups)))
        try:
            plan = Plan(
                domain=domain,
                epsilon=Fraction(self.epsilon),
                sampler=self.sampler,
                totals=read_totals(Path(self.totals), domain) if self.totals else None,
                calibration=self.calibration,
                tolerance=Fraction(self.tolerance),
                margins=each if self.margins is None else self.margins,
                clip=self.clip,
            )
            for margin in plan.margins:
                domain.grouping(margin)
            if plan.tolerance < 0:
                raise ValueError("the tolerance must not be negative")
            plan.mechanism  # noqa: B018  refuses a budget that is not positive
        except ValueError as error:
            raise Refused(str(error)) from None
        return plan


def new_bottom_up_settings(**values: Any) -> BottomUpSettings:
    """Settings from what a person typed. Raises Refused with the first fault."""
    try:
        return BottomUpSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise Refused(f"{first['loc'][0]}: {first['msg'].removeprefix('Value error, ')}") from None
