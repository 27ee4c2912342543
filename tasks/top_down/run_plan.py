"""The plan of a run of the TopDown Algorithm, all of it public: products, spine, budgets, release and input files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from typing import Any, get_args

from privacy.accounting.states import STATES_US
from privacy.noise.laws import Definition, DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.sampler import check_law
from privacy.tables.histogram import Count
from spine.allocations import Allocation
from spine.geocodes import SpineKind
from spine.noise import noise, parameter, record_cost
from spine.production import allocation
from spine.redistricting import PERSONS, UNITS, redistricting_passes
from spine.settings import Jurisdiction, SpineSettings
from spine.top_down.histogram import Product
from spine.top_down.queries import DETAILED, TOTAL, query_group
from tasks.errors import Refused, refusing
from tasks.geography.blocks.files import input_digests
from tasks.records.marks import GRF_FILE, DataFiles
from tasks.top_down.choices import ESTIMATORS as ESTIMATORS
from tasks.top_down.choices import PRODUCTS as PRODUCTS
from tasks.top_down.choices import Estimator as Estimator
from tasks.top_down.choices import MeasurementLayout as MeasurementLayout
from tasks.top_down.choices import MicrodataForm
from tasks.top_down.choices import ProductName as ProductName

SPINES: tuple[SpineKind, ...] = get_args(SpineKind)
SCHEMAS: dict[str, Product] = {"persons": PERSONS, "units": UNITS}
US = "US"  # the level above the states
QUARTERS_FILE, TOTALS_FILE = "quarters.csv", "states.csv"
DATA_FILES = DataFiles(
    ("persons.txt", "persons.parquet", "units.txt", "units.parquet"), (QUARTERS_FILE, TOTALS_FILE), (GRF_FILE,)
)


@dataclass(frozen=True)
class Design:
    """The choices of a run: measured products, spine, budgets, and the form of the release.

    states: FIPS codes, () for all of the geography. nation: whether the US level is measured; None: if all 50 states
    and DC are there. settings, allocations: by product. estimator: the program's, or generalized least squares over the
    whole spine. microdata: Parquet with a row for each block and cell, or also text with a row for each record.
    measurements: the layout in which the noisy measurements are released. pl94: whether the cells of the tables P1 to
    P5 have margins too, and whole states.
    """

    jurisdiction: Jurisdiction
    kind: SpineKind
    products: tuple[str, ...]
    settings: Mapping[str, SpineSettings]
    allocations: Mapping[str, Allocation]
    states: tuple[int, ...] = ()
    nation: bool | None = None
    estimator: Estimator = "topdown"
    microdata: MicrodataForm = "parquet"
    measurements: MeasurementLayout = "parquet"
    pl94: bool = False

    def with_nation(self, states: tuple[str, ...]) -> bool:
        """Return whether a run over these states measures the US level."""
        if self.jurisdiction == "pr":
            return False
        return set(states) == set(STATES_US) if self.nation is None else self.nation

    @property
    def definition(self) -> Definition:
        """Return the privacy definition, one for all products."""
        return self.allocations[self.products[0]].definition

    def cost(self, product: str, nation: bool) -> Fraction:
        """Return the cost of replacing one record within its state: that of the measured levels.

        A bypass moves shares along a path and never changes its sum (paper, section 5).
        """
        allocation = self.allocations[product]
        return sum(
            (
                record_cost(allocation, [parameter(allocation, share, a) for a in allocation.queries[level].values()])
                for level, share in allocation.levels.items()
                if level != US or nation
            ),
            Fraction(0),
        )

    def described(self) -> dict[str, Any]:
        """Return the whole design as files have it: plain values, exact fractions as text."""
        content = {
            "region": self.jurisdiction,
            "kind": self.kind,
            "products": self.products,
            "settings": {product: settings.described() for product, settings in self.settings.items()},
            "allocations": {
                name: {**each.described(), "source": each.source} for name, each in self.allocations.items()
            },
            "states": self.states,
            "nation": self.nation,
            "estimator": self.estimator,
            "microdata": self.microdata,
            "measurements": self.measurements,
            **({"pl94": True} if self.pl94 else {}),
        }
        return dict(json.loads(json.dumps(content, default=str)))

    def digest(self) -> str:
        """Return one digest of the whole design."""
        content = self.described()
        for each in content["allocations"].values():
            del each["source"]
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_allocation(product: str, allocation: Allocation, settings: SpineSettings, file: str | None = None) -> None:
    """Refuse an allocation with which a product's spine cannot be estimated, before it is charged.

    Every level must ask the detailed query, and below the top the total where totals are estimated first. file: where
    it was read.
    """
    named = f"{file}: the allocation of {product}" if file else f"the allocation of {product}"
    total_first = redistricting_passes(SCHEMAS[product]).total_first - {settings.levels[0]}
    if tuple(allocation.levels) != settings.levels:
        raise Refused(f"{named} is not for the levels {', '.join(settings.levels)}")
    for level in settings.levels:
        needed = {DETAILED, TOTAL} if level in total_first else {DETAILED}
        if missing := sorted(needed - set(allocation.queries[level])):
            raise Refused(f"{named} must ask the query {missing[0]} in level {level}")
        for query in allocation.queries[level]:
            with refusing(f"{named}, level {level}"):
                query_group(SCHEMAS[product], query)


def check_bureau_layout(design: Design) -> None:
    """Refuse a design whose measurements the layout of the Census Bureau's files cannot hold, before it is charged."""
    if design.measurements != "nmf":
        return
    if (design.kind, design.definition) != ("optimized", "zcdp"):
        found = f"not of the spine {design.kind} under {design.definition}"
        raise Refused(f"--measurements nmf is of the optimized spine under zcdp, {found}: choose parquet")
    for product in design.products:
        known = allocation(SCHEMAS[product].name, design.jurisdiction)
        if design.settings[product].levels != tuple(known.levels):
            raise Refused(f"--measurements nmf has the levels {', '.join(known.levels)} alone: choose parquet")
        for level, queries in design.allocations[product].queries.items():
            if strange := sorted(set(queries) - set(known.queries["Block"])):
                raise Refused(f"--measurements nmf has no query {strange[0]}, which {level} asks: choose parquet")


def counts_of(product: str, pl94: bool = False) -> tuple[Count, ...]:
    """Return the totals and table cells that get a margin; pl94: and then the cells of the tables P1 to P5."""
    schema = SCHEMAS[product]
    cells = chain.from_iterable(schema.tables.values()) if pl94 and product == "persons" else ()
    return (*schema.estimated, *cells)


def law(allocation: Allocation, share: Fraction, alpha: Fraction) -> Law:
    """Return the noise of a query group in a geounit with this share (paper, Theorem 3)."""
    noise_parameter = parameter(allocation, share, alpha)
    return DiscreteGaussian(noise_parameter) if allocation.definition == "zcdp" else TwoSidedGeometric(noise_parameter)


def undrawable(allocation: Allocation, shares: Mapping[str, list[Fraction]]) -> Iterator[tuple[str, str, ValueError]]:
    """Yield level, query group and reason of each law that the sampler cannot draw; shares: by level."""
    for each in noise(allocation, shares):
        try:
            check_law(law(allocation, each.share, each.alpha))
        except ValueError as error:
            yield each.level, each.query, error


@lru_cache(maxsize=512)
def variance(noise: Law) -> float:
    """Return the variance of a law; cached, for a level has few."""
    return noise.variance()


def request_digest(design: Design, files: Mapping[str, str]) -> str:
    """Return the digest of everything that shapes a release besides the records: design and public files."""
    return sha256(json.dumps([design.digest(), dict(files)], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Tables:
    """The paths or URLs of the input.

    records: those of each histogram that is released. marks: the folder where a mark may be. geography: as `das spine`
    reads it. quarters, totals: the declared invariants: living quarters by block, total population by state. The public
    files of a declaration are in its design.
    """

    records: dict[str, str]
    marks: str
    geography: str = ""
    quarters: str = ""
    totals: str = ""

    @property
    def figures(self) -> tuple[str, ...]:
        """The files of the declared invariants."""
        return tuple(filter(None, (self.quarters, self.totals)))

    @property
    def paths(self) -> tuple[str, ...]:
        """All files but marks."""
        return *self.records.values(), *self.figures, *filter(None, (self.geography,))

    def digests(self) -> dict[str, str]:
        """Return the digests of the public files by name."""
        return input_digests(self.geography, *self.figures) if self.geography else {}
