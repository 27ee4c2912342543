"""Settings of a run of the TopDown Algorithm, on the redistricting data or a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from flows.execution.option import argument, flag, option
from flows.execution.settings import Location, RunSettings
from privacy.accounting.composition import Spend
from privacy.accounting.states import STATES_PR
from spine.declaration.declaration import Declaration, read_declaration
from spine.geocodes import SpineKind
from spine.settings import Definition, Jurisdiction
from tasks.errors import Refused
from tasks.records.declarations import beside, find_declaration, read_columns, read_raw
from tasks.records.files import exists, locate, refuse_unreadable
from tasks.records.marks import GRF_FILE
from tasks.releases.manifest import MANIFEST
from tasks.top_down.choices import Estimator, MeasurementLayout, MicrodataForm, ProductName

if TYPE_CHECKING:
    from tasks.top_down.declared.public_tables import DeclaredDesign
    from tasks.top_down.declared.source import DeclaredRun
    from tasks.top_down.input.block_run import TopDownRun
    from tasks.top_down.run_plan import Design, Tables

FORMS = ("parquet", "txt")


class EstimateSettings(RunSettings):
    """The settings of a run whose counts are estimated."""

    VALIDATED = "histograms"

    def remarks(self, manifest: Mapping[str, Any]) -> list[str]:
        """Return the number of parents that the first method did not solve, and how to get margins without a charge."""
        parts = {f" of {name}": facts for name, facts in manifest.get("products", {}).items()} or {"": manifest}
        failed = {of: len(facts["failed"]) for of, facts in parts.items() if facts["failed"]}
        margins = manifest["statements"].get("standard_errors")
        return [
            *(f"parents{of} not solved by the first method: {n}, named in manifest.json" for of, n in failed.items()),
            *([f"   margins  {margins}"] if margins else []),
        ]


class TopDownSettings(EstimateSettings):
    """The inputs, outputs and options of one run of the TopDown Algorithm, which releases one jurisdiction."""

    SYSTEM = "top-down"
    DATA = ("data", "geography", "quarters", "state_totals")
    SHOWN = ("estimator", "microdata")
    OF_TRUTH: ClassVar = {"measurements": "none"}

    data: Location = argument("DATA", "Folder of persons, units (.parquet or .txt), quarters.csv and states.csv.")
    geography: Location | None = option(None, "Block tables, as das spine reads them.", show_default="DATA/GRF-C.txt")
    quarters: Location | None = option(None, "Declared living quarters by block.", show_default="DATA/quarters.csv")
    state_totals: Location | None = option(None, "Declared population by state.", show_default="DATA/states.csv")
    jurisdiction: Jurisdiction = option("us", "US or Puerto Rico: the release goes to OUT/us or OUT/pr.")
    states: tuple[int, ...] = option((), "Only this state, by FIPS code; may be repeated.", "--only-state")
    products: tuple[ProductName, ...] = option(
        ("persons", "units"),
        "Only this product; may be repeated.",
        "--product",
        show_default="persons and units",
        min_length=1,
    )
    spine: SpineKind = option("optimized", "The geographic spine.")
    nation: bool | None = option(
        None, "Measure the US level.", "--us-level/--no-us-level", show_default="with all states"
    )
    definition: Definition = option("zcdp", "Discrete Gaussian or two-sided geometric noise.")
    changes: dict[str, str] = Field(default_factory=dict, description="Single spine settings by name.")
    persons_budget: str | None = option(None, "Another rho (puredp: epsilon), exact.")
    units_budget: str | None = option(None, "Another rho (puredp: epsilon), exact.")
    persons_allocation: Location | None = option(
        None, "JSON file of budget and shares; the production run's by default."
    )
    units_allocation: Location | None = option(None, "JSON file of budget and shares; the production run's by default.")
    estimator: Estimator = option(
        "topdown", "topdown: as the 2020 program; gls: least squares that also uses the measurements below a level."
    )
    microdata: MicrodataForm = flag(
        "parquet", "text: write microdata as text as well, one row a record.", "--mdf-text", "text"
    )
    measurements: MeasurementLayout = option(
        "parquet",
        "Release the noisy measurements: parquet, das-flows' layout; nmf, that of the Census Bureau's "
        "files; or none: once left out, they are gone for good.",
    )

    @property
    def directory(self) -> TopDownRun:
        """The confidential directory of the run, which must have its id."""
        from tasks.top_down.input.block_run import TopDownRun

        return TopDownRun(self.runs / str(self.run_id))

    def spends(self) -> dict[str, Spend]:
        """Return the spend of the run, with and without the US level if that depends on the data."""
        from tasks.top_down.spend import planned_spends

        return planned_spends(self.design())

    def charged_states(self) -> tuple[str, ...]:
        """Return the states that the run charges; empty if its data decides."""
        return STATES_PR if self.jurisdiction == "pr" else tuple(f"{state:02}" for state in self.states)

    @property
    def tables(self) -> Tables:
        """The paths of the inputs."""
        from tasks.top_down.run_plan import QUARTERS_FILE, TOTALS_FILE, Tables

        data = self.data.rstrip("/")
        return Tables(
            records={name: _records(data, name) for name in self.products},
            marks=data,
            geography=self.geography or f"{data}/{GRF_FILE}",
            quarters=self.quarters or f"{data}/{QUARTERS_FILE}",
            totals=self.state_totals or f"{data}/{TOTALS_FILE}",
        )

    def geography_read(self) -> str:
        """Return the number of blocks of the spine, and the public files that name and limit them."""
        tables = self.tables
        blocks = sum(state.geounits[-1] for state in self.directory.summaries(self.products[0]))
        return f"{blocks:,} blocks of {tables.geography}, {tables.quarters} and {tables.totals}"

    def design(self) -> Design:
        """Return the plan of the run. Raises Refused for choices that contradict each other."""
        from tasks.geography.spine_options import read_allocation, read_settings
        from tasks.top_down.run_plan import SCHEMAS, Design, check_allocation, check_bureau_layout

        changes = self.changes | {"definition": self.definition}
        products: tuple[str, ...] = tuple(dict.fromkeys(self.products))
        settings = {
            name: read_settings(SCHEMAS[name].name, self.jurisdiction, "production", changes) for name in products
        }
        allocations = {}
        for name in products:
            own, budget = getattr(self, f"{name}_allocation"), getattr(self, f"{name}_budget")
            allocations[name] = read_allocation(own, budget, settings[name], f"--{name}-budget")
            check_allocation(name, allocations[name], settings[name], own)
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
            microdata=self.microdata,
            measurements=self.measurements,
        )
        check_bureau_layout(design)
        return design

    def configuration_digest(self) -> str:
        """Return the digest of the design and of the public files. Raises Refused."""
        from tasks.top_down.run_plan import request_digest

        with refuse_unreadable(f"a public file of the run on {self.data}"):
            return request_digest(self.design(), self.tables.digests())


def _records(data: str, name: str) -> str:
    """Return the file of a product's records: Parquet if it exists, else text."""
    filesystem, folder = locate(data)
    present = [f"{data}/{name}.{form}" for form in FORMS if filesystem.exists(f"{folder.rstrip('/')}/{name}.{form}")]
    return present[0] if present else f"{data}/{name}.txt"


def _declaration(name: str) -> str:
    """Make the path of a file absolute; leave a URL and the name of a shipped declaration as they are."""
    is_file = "/" in name or name.endswith((".toml", ".json")) or Path(name).exists()
    return str(Path(name).absolute()) if is_file and "://" not in name else name


class DeclaredSettings(EstimateSettings):
    """The inputs, outputs and options of one run of a declaration."""

    SYSTEM = "declared"
    SHOWN = ("estimator",)
    IS_TABLE = True
    READS = ("top-down", "declared")

    data: Location = argument("DATA", "Records: text or Parquet (path or URL).")
    declaration: Annotated[str, AfterValidator(_declaration)] = option(
        ..., "The declaration of hierarchy, table and budget: a file, or the name of a shipped one."
    )
    estimator: Estimator = Field(default="topdown", description=TopDownSettings.model_fields["estimator"].description)

    @property
    def directory(self) -> DeclaredRun:
        """The confidential directory of the run, which must have its id."""
        from tasks.top_down.declared.source import DeclaredRun

        return DeclaredRun(self.runs / str(self.run_id))

    def spends(self) -> dict[str, Spend]:
        """Return the spend of the run, by the name of the declaration."""
        from tasks.top_down.declared.public_tables import read_declared

        declared = read_declared(self.declaration, self.directory)[1]
        return {declared.declaration.form.name: declared.spend}

    def foreseen_spends(self) -> dict[str, Spend]:
        """Return the spend; by the declaration alone if its releases are not there, when its groups may be more."""
        from tasks.top_down.spend import declared_spend

        if all(exists(f"{release}/{MANIFEST}") for release in self.releases()):
            return self.spends()
        declaration = self._read()
        return {declaration.form.name: declared_spend(declaration, [declaration.form.levels[-1].name])}

    def releases(self) -> tuple[str, ...]:
        """Return the places of the releases whose counts the declaration keeps."""
        path = find_declaration(self.declaration)
        return tuple(beside(path, each.release) for each in self._read().form.equal)

    def check_without(self) -> None:
        """Refuse faults of the table of leaves and of totals, and records that lack columns."""
        from tasks.top_down.declared.public_tables import read_without_releases
        from tasks.top_down.declared.source import open_data

        declaration = read_without_releases(find_declaration(self.declaration))
        if findings := open_data(self.data, declaration)[1]:
            raise Refused(f"{findings[0].file}: {findings[0].rule}")

    def _read(self) -> Declaration:
        """Return the declaration, without its tables."""
        from tasks.top_down.declared.public_tables import faulty

        path = find_declaration(self.declaration)
        declaration, faults = read_declaration(read_raw(path))
        if declaration is None:
            raise faulty(path, faults)
        return declaration

    def charged_states(self) -> tuple[str, ...]:
        """Return the states that the run charges: those of its blocks; every state if its leaves are no blocks."""
        from tasks.records.block_codes import BLOCK_COLUMNS
        from tasks.top_down.declared.source import charged_states, has_blocks

        form = self._read().form
        if not has_blocks(form):
            return charged_states(set())
        leaves, _ = read_columns(
            beside(find_declaration(self.declaration), form.leaves.file), BLOCK_COLUMNS[:1], form.delimiter
        )
        return charged_states({*leaves[BLOCK_COLUMNS[0]]} if leaves else set())

    def geography_read(self) -> str:
        """Return the number of leaves of the hierarchy, and the public files of the declaration."""
        files = ", ".join(self.directory.design.public.digests)
        return f"{self.directory.declared.hierarchy.spine.blocks:,} leaves of {self.declaration} ({files})"

    def published(self) -> str:
        """Return which noisy answers of a wide table are published."""
        declared = self.directory.declared
        return f", with noisy answers: {declared.declaration.form.measurements}" if declared.is_wide else ""

    @property
    def tables(self) -> Tables:
        """The paths of the inputs."""
        from tasks.top_down.declared.source import RECORDS
        from tasks.top_down.run_plan import Tables

        return Tables({RECORDS: self.data}, self.marks)

    def design(self) -> DeclaredDesign:
        """Return the plan of the run. Raises Refused for a declaration with faults."""
        from tasks.top_down.declared.public_tables import DeclaredDesign, read_declared

        return DeclaredDesign(read_declared(self.declaration, self.directory)[0], self.estimator)

    def configuration_digest(self) -> str:
        """Return the digest of the declaration, its public files and the estimator. Raises Refused."""
        return self.design().digest()
