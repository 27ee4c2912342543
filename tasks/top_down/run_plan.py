"""What a run of the TopDown Algorithm is to do, all of it public: products, spine, budgets, and what is released."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Literal

from privacy.accounting.states import STATES_US
from privacy.noise.laws import Definition, DiscreteGaussian, Law, TwoSidedGeometric
from spine.allocations import Allocation
from spine.noise import parameter, record_cost
from spine.settings import AS_WRITTEN, Jurisdiction, SpineSettings
from spine.top_down.histogram import PRODUCTS as ENGINE_PRODUCTS
from spine.top_down.queries import DETAILED, TOTAL, query_group
from tasks.lifecycle.errors import Refused

Kind = Literal["conventional", "aian", "optimized"]
KINDS: tuple[Kind, ...] = ("conventional", "aian", "optimized")
Estimator = Literal["topdown", "gls"]
ESTIMATORS: tuple[Estimator, ...] = ("topdown", "gls")
ProductName = Literal["persons", "units"]
PRODUCTS: tuple[ProductName, ...] = ("persons", "units")
ENGINE = {"persons": "pl94-persons", "units": "pl94-units"}  # as spine/ calls them
US = "US"  # the level above the states


@dataclass(frozen=True)
class Design:
    """What is measured, on which spine, for how much, and what is released.

    states: FIPS codes of those asked for, () for all of the geography. nation: whether the US level is measured; None
    where it is if all 50 states and DC are there. settings, allocations: by product. estimator: the program's,
    or generalized least squares over the whole spine (`spine.gls`). microdata: Parquet with a row a
    block and cell, or text with a row a record as well. measurements: whether the noisy measurements are released.
    """

    jurisdiction: Jurisdiction
    kind: Kind
    products: tuple[ProductName, ...]
    settings: Mapping[ProductName, SpineSettings]
    allocations: Mapping[ProductName, Allocation]
    states: tuple[int, ...] = ()
    nation: bool | None = None
    estimator: Estimator = "topdown"
    rounding: Literal["program", "l1"] = "program"
    microdata: Literal["parquet", "text"] = "parquet"
    measurements: bool = True

    def with_nation(self, states: tuple[str, ...]) -> bool:
        """Whether a run over these states measures the US level."""
        if self.jurisdiction == "pr":
            return False
        return set(states) == set(STATES_US) if self.nation is None else self.nation

    @property
    def definition(self) -> Definition:
        """The privacy definition, one for all products."""
        return self.allocations[self.products[0]].definition

    def cost(self, product: ProductName, nation: bool) -> Fraction:
        """What replacing one record within its state costs: the levels of the spine that are measured.

        A bypass moves shares along a path and never changes its sum (paper, section 5).
        """
        allocation = self.allocations[product]
        return sum(
            (
                record_cost(allocation, [parameter(allocation, share, alpha) for alpha in queries.values()])
                for level, share in allocation.levels.items()
                if level != US or nation
                for queries in (allocation.queries[level],)
            ),
            Fraction(0),
        )

    def total(self, nation: bool) -> Fraction:
        """What a run spends: of a person's record and of a unit's together."""
        return sum((self.cost(product, nation) for product in self.products), Fraction(0))

    def digest(self) -> str:
        """One digest of it all."""
        told = {
            "region": self.jurisdiction,
            "kind": self.kind,
            "products": self.products,
            "settings": {name: settings.described() for name, settings in self.settings.items()},
            "allocations": {name: exact(allocation) for name, allocation in self.allocations.items()},
            "states": self.states,
            "nation": self.nation,
            "estimator": self.estimator,
            "rounding": self.rounding,
            "microdata": self.microdata,
            "measurements": self.measurements,
        }
        return sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def exact(allocation: Allocation) -> dict[str, object]:
    """An allocation as text, its fractions exact."""
    return {
        "mechanism": AS_WRITTEN[allocation.definition],
        "budget": str(allocation.budget),
        "levels": {level: str(share) for level, share in allocation.levels.items()},
        "queries": {
            level: {query: str(alpha) for query, alpha in queries.items()}
            for level, queries in allocation.queries.items()
        },
    }


def check_allocation(product: ProductName, allocation: Allocation, settings: SpineSettings) -> None:
    """Refuse an allocation by which a product's spine cannot be estimated: after the charge it would be too late.

    Every level must ask the detailed query; of persons, those between the top and the blocks also the total, for the
    children's totals are estimated first.
    """
    if tuple(allocation.levels) != settings.levels:
        raise Refused(f"the allocation of {product} is not for the levels {', '.join(settings.levels)}")
    for level in settings.levels:
        needed = {DETAILED, TOTAL} if product == "persons" and level in settings.levels[1:-1] else {DETAILED}
        if missing := sorted(needed - set(allocation.queries[level])):
            raise Refused(f"the allocation of {product} must ask the query {missing[0]} in level {level}")
        for query in allocation.queries[level]:
            try:
                query_group(ENGINE_PRODUCTS[ENGINE[product]], query)
            except ValueError as error:
                raise Refused(f"the allocation of {product}, level {level}: {error}") from None


def law(allocation: Allocation, share: Fraction, alpha: Fraction) -> Law:
    """The noise of a query group in a geounit with this share (paper, Theorem 3)."""
    noise_parameter = parameter(allocation, share, alpha)
    return DiscreteGaussian(noise_parameter) if allocation.definition == "zcdp" else TwoSidedGeometric(noise_parameter)


def request_digest(design: Design, files: Mapping[str, str]) -> str:
    """The digest of all that shapes a release besides the records: the design and the public files."""
    return sha256(json.dumps([design.digest(), dict(files)], sort_keys=True).encode()).hexdigest()
