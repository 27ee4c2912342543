"""The settings of a run of the TopDown Algorithm."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from flows.execution.settings import Location, RunSettings
from privacy.noise.laws import Definition
from spine.geocodes import SpineKind
from spine.settings import Jurisdiction
from tasks.inputs.files import locate
from tasks.inputs.marks import GRF_FILE, QUARTERS_FILE, TOTALS_FILE
from tasks.inputs.spine_options import read_allocation, read_settings
from tasks.lifecycle.errors import Refused
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import (
    SCHEMAS,
    Design,
    Estimator,
    MeasurementLayout,
    ProductName,
    Tables,
    check_allocation,
    check_bureau_layout,
    public_digests,
    request_digest,
)

FORMS = ("parquet", "txt")


class TopDownSettings(RunSettings):
    """What one run of the TopDown Algorithm reads, writes and may spend: the release of one jurisdiction."""

    SYSTEM = "top-down"
    DATA = ("data", "geography", "quarters", "totals")

    data: Location = Field(description="Folder of persons and units (.txt or .parquet), quarters.csv, states.csv.")
    geography: Location | None = Field(
        default=None, description="Block tables, as das spine reads them; GRF-C in DATA."
    )
    quarters: Location | None = Field(default=None, description="Declared living quarters by block; quarters.csv.")
    totals: Location | None = Field(default=None, description="Declared population by state; states.csv.")
    jurisdiction: Jurisdiction = Field(default="us", description="us or pr: the release goes to OUT/us or OUT/pr.")
    spine: SpineKind = Field(default="optimized", description="conventional, aian or optimized.")
    products: tuple[ProductName, ...] = Field(default=("persons", "units"), min_length=1)
    definition: Definition = "zcdp"
    changes: dict[str, str] = Field(default_factory=dict, description="Single spine settings by name.")
    persons_allocation: Location | None = Field(default=None, description="A JSON file; production's by default.")
    units_allocation: Location | None = Field(default=None, description="A JSON file; production's by default.")
    persons_budget: str | None = Field(default=None, description="Another rho or epsilon, an exact fraction.")
    units_budget: str | None = Field(default=None, description="Another rho or epsilon, an exact fraction.")
    states: tuple[int, ...] = Field(default=(), description="Only these states, by FIPS code.")
    nation: bool | None = Field(default=None, description="Measure the US level; by default where all states are.")
    estimator: Estimator = Field(
        default="topdown",
        description="topdown: as the 2020 program; gls: least squares that also uses the measurements below a level.",
    )
    rounding: Literal["program", "l1"] = "program"
    microdata: Literal["parquet", "text"] = Field(
        default="parquet", description="text: also as text, one row a record."
    )
    measurements: MeasurementLayout = Field(
        default="parquet",
        description="Release the noisy measurements: parquet, our layout; nmf, the Census Bureau's; or none.",
    )

    @property
    def directory(self) -> TopDownRun:
        """The confidential directory of the run, which must have its id."""
        return TopDownRun(self.runs / str(self.run_id))

    @property
    def folder(self) -> str:
        """The folder of OUT that the release goes to."""
        return self.jurisdiction

    @property
    def tables(self) -> Tables:
        """The paths of the inputs."""
        data = self.data.rstrip("/")
        return Tables(
            persons=_records(data, "persons") if "persons" in self.products else None,
            units=_records(data, "units") if "units" in self.products else None,
            geography=self.geography or f"{data}/{GRF_FILE}",
            quarters=self.quarters or f"{data}/{QUARTERS_FILE}",
            totals=self.totals or f"{data}/{TOTALS_FILE}",
            marks=data,
        )

    def design(self) -> Design:
        """Return the plan of the run. Raises Refused for choices that contradict each other."""
        changes = self.changes | {"definition": self.definition}
        products = tuple(dict.fromkeys(self.products))
        settings = {
            name: read_settings(SCHEMAS[name].name, self.jurisdiction, "production", changes) for name in products
        }
        own = {
            "persons": (self.persons_allocation, self.persons_budget),
            "units": (self.units_allocation, self.units_budget),
        }
        allocations = {name: read_allocation(*own[name], settings[name], f"--{name}-budget") for name in products}
        for name, allocation in allocations.items():
            check_allocation(name, allocation, settings[name])
        if self.nation and self.jurisdiction == "pr":
            raise Refused("Puerto Rico has no nation above it: its spine begins at the state")
        design = Design(
            jurisdiction=self.jurisdiction,
            kind=self.spine,
            products=products,
            settings=settings,
            allocations=allocations,
            states=tuple(sorted(self.states)),
            nation=self.nation,
            estimator=self.estimator,
            rounding=self.rounding,
            microdata=self.microdata,
            measurements=self.measurements,
        )
        check_bureau_layout(design)
        return design

    def configuration_digest(self) -> str:
        """Return the digest of the design and of the public files. Raises Refused."""
        try:
            return request_digest(self.design(), public_digests(self.tables))
        except OSError as error:
            raise Refused(f"{self.data}: {error.strerror or 'a file cannot be read'}") from None


def _records(data: str, name: str) -> str:
    """Return the file of a product's records: Parquet where there is one, else text."""
    filesystem, folder = locate(data)
    present = [f"{data}/{name}.{form}" for form in FORMS if filesystem.exists(f"{folder.rstrip('/')}/{name}.{form}")]
    return present[0] if present else f"{data}/{name}.txt"
