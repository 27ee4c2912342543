"""The settings of a bottom-up run."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from flows.execution.settings import Location, RunSettings
from privacy.bottom_up.calibration import Method
from privacy.noise.sampler import check_law
from tasks.bottom_up.domain import check_marginals, read_domain, read_totals
from tasks.bottom_up.measure import RunPlan
from tasks.bottom_up.tabulate import mark_folder
from tasks.inputs.exact_numbers import quoted_number
from tasks.lifecycle.errors import Refused


def checked_number(text: str) -> str:
    """Check a number that is kept as it was written, `0.5` or `1/2`. Raises ValueError."""
    quoted_number(text)
    return text


Exact = Annotated[str, AfterValidator(checked_number)]


class BottomUpSettings(RunSettings):
    """What one bottom-up run reads, writes and may spend."""

    SYSTEM = "bottom-up"
    DATA = ("table",)

    table: Location = Field(description="The table: text or Parquet, by path or URL.")
    domain: Location = Field(description="The declared domain, a JSON file.")
    epsilon: Exact = Field(description="Privacy-loss budget of the histogram, exact.")
    totals: Location | None = Field(default=None, description="Published totals to calibrate to.")
    calibration: Method = "additive"
    tolerance: Exact = Field(default="0", description="How far from the data a consistent total may be.")
    marginals: tuple[tuple[str, ...], ...] | None = Field(default=None, description="By default each factor.")
    clip: bool = Field(default=False, description="Publish no negative count.")

    @property
    def folder(self) -> str:
        """The folder of OUT that the release goes to."""
        return "bottom-up"

    @property
    def marks(self) -> str:
        """The folder of the table, where its mark is."""
        return mark_folder(self.table)

    def configuration_digest(self) -> str:
        """Return the digest of the plan. Raises Refused."""
        return self.plan().digest()

    def plan(self) -> RunPlan:
        """Return the plan of the run, from the public files. Raises Refused."""
        domain = read_domain(Path(self.domain))
        each = ((), *((name,) for name in (*domain.factors, *domain.groups)))
        try:
            plan = RunPlan(
                domain=domain,
                epsilon=Fraction(self.epsilon),
                totals=read_totals(Path(self.totals), domain) if self.totals else None,
                calibration=self.calibration,
                tolerance=Fraction(self.tolerance),
                marginals=each if self.marginals is None else self.marginals,
                clip=self.clip,
            )
            check_marginals(domain, plan.marginals)
            if plan.tolerance < 0:
                raise ValueError("the tolerance must not be negative")
            check_law(plan.mechanism.law)
        except ValueError as error:
            raise Refused(str(error)) from None
        return plan
